/// Reads values from statements and binds them, by column.
extension Row {
    /// Reads the current row of a statement, without its body. The checksums are not verified here.
    init(_ fields: Fields<MessageColumn>) throws(QueueError) {
        guard let status = StoredStatus(rawValue: fields.int(.status)), status.isReceived != fields.isNull(.sender),
            (0...Options.bodyCeiling).contains(fields.int(.bodySize)), let progress = Progress(fields, status.status)
        else {
            throw QueueError(.corrupt, "message \(fields.int(.seq)) is damaged: its columns have invalid or contradictory values")
        }
        self.init(
            sequence: fields.int(.seq), id: fields.text(.id), isNamed: fields.bool(.named), conversation: Name(fields.text(.conversation)),
            sender: fields.optionalText(.sender), createdAt: fields.int(.createdAt), editedAt: fields.int(.editedAt),
            metadataText: fields.optionalText(.metadata), notBefore: fields.int(.notBefore), expiresAt: fields.int(.expiresAt),
            unmeteredOnly: fields.bool(.unmeteredOnly), progress: progress, stateHash: fields.int(.stateHash),
            contentHash: fields.int(.contentHash), bodySize: fields.int(.bodySize), priority: fields.int(.priority),
            replaceKey: fields.optionalText(.replaceKey), timeAt: fields.int(.timeAt), spanBoot: fields.int(.spanBoot),
            startUptime: fields.int(.startUptime), expiryUptime: fields.int(.expiryUptime))
    }

    /// Binds all columns but the body and those that `Progress.bind` binds.
    func bind(to fields: Fields<MessageColumn>) throws(QueueError) {
        fields.bind(.seq, sequence)
        fields.bind(.status, try StoredStatus.number(progress.status, of: self))
        try fields.bind(.id, id)
        fields.bind(.named, isNamed)
        try fields.bind(.conversation, conversation.text)
        try fields.bind(.sender, sender)
        fields.bind(.createdAt, createdAt)
        fields.bind(.editedAt, editedAt)
        try fields.bind(.metadata, metadataText)
        fields.bind(.notBefore, notBefore)
        fields.bind(.expiresAt, expiresAt)
        fields.bind(.unmeteredOnly, unmeteredOnly)
        fields.bind(.stateHash, stateHash)
        fields.bind(.contentHash, contentHash)
        fields.bind(.bodySize, bodySize)
        fields.bind(.priority, priority)
        try fields.bind(.replaceKey, replaceKey)
        fields.bind(.timeAt, timeAt)
        fields.bind(.spanBoot, spanBoot)
        fields.bind(.startUptime, startUptime)
        fields.bind(.expiryUptime, expiryUptime)
    }

    /// Reads what is needed to remove a message, whatever else of it is damaged.
    init(_ fields: Fields<OutlineColumn>) {
        let status = StoredStatus(rawValue: fields.int(.status))
        var progress = Progress()
        progress.status = status?.status ?? .failed
        self.init(
            sequence: fields.int(.seq), id: fields.text(.id), isNamed: false, conversation: Name(fields.text(.conversation)),
            // The status decides whether the message counts as received: the sender may be damaged.
            sender: status?.isReceived == true ? fields.text(.sender) : nil, createdAt: 0, editedAt: 0,
            notBefore: fields.int(.notBefore), expiresAt: 0, unmeteredOnly: fields.bool(.unmeteredOnly), progress: progress,
            isCounted: status != nil, bodySize: Row.countedSize(fields.int(.bodySize)))
    }
}

extension Progress {
    /// nil: a value is out of range.
    fileprivate init?(_ fields: Fields<MessageColumn>, _ status: MessageStatus) {
        guard let attempts = UInt32(exactly: fields.int(.attempts)), let retries = Int(exactly: fields.int(.retriesUsed)),
            retries < Int(Int32.max), let code = Int32(exactly: fields.int(.sentCode))
        else { return nil }
        self.init()
        self.status = status
        self.attempts = attempts
        retriesUsed = retries
        dueAt = fields.int(.dueAt)
        dueDelay = fields.int(.dueDelay)
        dueBoot = fields.int(.dueBoot)
        dueUptime = fields.int(.dueUptime)
        lastAttemptAt = fields.int(.lastAttemptAt)
        sentAt = fields.int(.sentAt)
        sentDuration = fields.int(.sentDuration)
        sentCode = code
        deliveredAt = fields.int(.deliveredAt)
        readAt = fields.int(.readAt)
        take(RowFlags(rawValue: fields.int(.flags)))
    }

    /// Binds the columns `MessageColumn.progress`.
    func bind(to fields: Fields<MessageColumn>) {
        fields.bind(.attempts, Int64(attempts))
        fields.bind(.retriesUsed, Int64(retriesUsed))
        fields.bind(.dueAt, dueAt)
        fields.bind(.dueDelay, dueDelay)
        fields.bind(.dueBoot, dueBoot)
        fields.bind(.dueUptime, dueUptime)
        fields.bind(.lastAttemptAt, lastAttemptAt)
        fields.bind(.sentAt, sentAt)
        fields.bind(.sentDuration, sentDuration)
        fields.bind(.sentCode, Int64(sentCode))
        fields.bind(.deliveredAt, deliveredAt)
        fields.bind(.readAt, readAt)
        fields.bind(.flags, RowFlags(self).rawValue)
    }
}

extension StoredStatus {
    /// Returns the number on disk. A status that is never stored is a programming error.
    static func number(_ status: MessageStatus, of row: Row) throws(QueueError) -> Int64 {
        guard let stored = StoredStatus(status, isReceived: row.isReceived) else {
            throw QueueError(.internal, "message \(row.sequence) cannot be stored with status \(status)")
        }
        return stored.rawValue
    }
}

extension Head {
    /// `boot`: a hash of the id of the present boot.
    init(_ fields: Fields<HeadColumn>, boot: Int64) {
        let flags = RowFlags(rawValue: fields.int(.flags))
        self.init(
            sequence: fields.int(.seq),
            due: Due(
                at: max(fields.int(.dueAt), 0), delay: max(fields.int(.dueDelay), 0), boot: fields.int(.dueBoot),
                uptime: max(fields.int(.dueUptime), 0)),
            waitsForNetwork: flags.contains(.waitsForNetwork), notBefore: max(fields.int(.notBefore), 0),
            expiresAt: flags.contains(.ignoresExpiry) ? 0 : max(fields.int(.expiresAt), 0), unmeteredOnly: fields.bool(.unmeteredOnly),
            priority: Row.valid(priority: fields.int(.priority)), round: flags.round,
            bodySize: Row.countedSize(fields.int(.bodySize)))
        let given = fields.int(.spanBoot)
        guard given != 0, given == boot else { return }
        bootTimes = BootTimes(start: max(fields.int(.startUptime), 0), expiry: max(fields.int(.expiryUptime), 0))
    }
}

extension Counts {
    init(_ fields: Fields<ConversationColumn>) {
        self.init()
        queued = fields.int(.queued)
        sent = fields.int(.sent)
        delivered = fields.int(.delivered)
        read = fields.int(.read)
        failed = fields.int(.failed)
        received = fields.int(.received)
        unread = fields.int(.unread)
        unsentBytes = fields.int(.unsentBytes)
    }

    /// Binds the columns `ConversationColumn.counts`.
    func bind(to fields: Fields<ConversationColumn>) {
        fields.bind(.queued, queued)
        fields.bind(.sent, sent)
        fields.bind(.delivered, delivered)
        fields.bind(.read, read)
        fields.bind(.failed, failed)
        fields.bind(.received, received)
        fields.bind(.unread, unread)
        fields.bind(.unsentBytes, unsentBytes)
    }
}

extension Attempt {
    /// Reads the current row of a statement; nil: a value is out of range.
    init?(_ fields: Fields<AttemptColumn>) {
        guard let number = UInt32(exactly: fields.int(.number)), let code = Int32(exactly: fields.int(.code)),
            let result = Int32(exactly: fields.int(.outcome)).flatMap(Attempt.Outcome.init(rawValue:)),
            let kind = Int32(exactly: fields.int(.kind)).flatMap(FailureKind.init(rawValue:)),
            let arrival = Int32(exactly: fields.int(.arrival)).flatMap(Attempt.Arrival.init(rawValue:))
        else { return nil }
        let duration = fields.int(.duration)
        self.init(
            number: number, startedAt: fields.int(.startedAt), duration: duration < 0 ? nil : duration, result: result, kind: kind,
            code: code, text: fields.text(.text), arrival: arrival)
    }

    func bind(to fields: Fields<AttemptColumn>, of sequence: Int64, _ room: LedgerRule.Room) throws(QueueError) {
        fields.bind(.seq, sequence)
        fields.bind(.number, Int64(number))
        fields.bind(.startedAt, startedAt)
        fields.bind(.duration, duration ?? -1)
        fields.bind(.outcome, Int64(result.rawValue))
        fields.bind(.kind, Int64(kind.rawValue))
        fields.bind(.code, Int64(code))
        fields.bind(.arrival, Int64(arrival.rawValue))
        try fields.bind(.text, LedgerRule.text(text, room))
    }
}
