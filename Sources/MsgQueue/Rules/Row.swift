/// A row of the table `message`.
package struct Row {
    package var sequence: Int64
    package var id: String
    package var isNamed = true
    package var conversation: Name
    /// The sender of a recorded message; nil: the message was enqueued here.
    package var sender: String?
    package var createdAt: Int64
    package var editedAt: Int64 = 0
    /// JSON, or nil.
    package var metadataText: String?
    package var notBefore: Int64
    package var expiresAt: Int64
    package var unmeteredOnly: Bool
    package var progress: Progress
    /// False: the stored status is invalid, and no count includes the message.
    package var isCounted = true
    package var stateHash: Int64 = 0
    package var contentHash: Int64 = 0
    package var bodySize: Int64
    package var priority: Int64 = 0
    package var replaceKey: String?
    /// The time of the message as it is stored; 0: `createdAt`, in order with the messages before it.
    package var timeAt: Int64 = 0
    /// If `notBefore` or `expiresAt` were given as durations: the boot, and the time since that boot; otherwise 0.
    package var spanBoot: Int64 = 0
    package var startUptime: Int64 = 0
    package var expiryUptime: Int64 = 0
    /// The same if it is the present boot. Not stored.
    package var bootTimes = BootTimes()
    /// The body, or only its start.
    package var body: [UInt8] = []
    package var hasWholeBody = false
    /// A description of the damage, if the row does not match its checksum.
    package var damage: String?

    package var isReceived: Bool { sender != nil }
    /// The time of the message: when it was composed, or sent by its sender.
    package var time: Int64 { min(max(timeAt == 0 ? createdAt : timeAt, 1), DraftRule.lastTime) }

    package var head: Head {
        var head = Head(
            sequence: sequence, due: progress.due, waitsForNetwork: progress.waitsForNetwork, notBefore: notBefore,
            expiresAt: progress.ignoresExpiry ? 0 : expiresAt, unmeteredOnly: unmeteredOnly,
            priority: Row.valid(priority: priority), round: progress.round, bodySize: Row.countedSize(bodySize))
        head.bootTimes = bootTimes
        return head
    }

    /// The event of a change of the message's status. `attempt`: the number of the attempt; 0: none.
    package func changed(
        from: MessageStatus?, to: MessageStatus, attempt: UInt32 = 0, _ failure: Failure? = nil, at: Int64
    ) -> Event {
        .status(StatusChange(id: id, conversation: conversation.text, from: from, to: to, attempt: attempt, failure: failure, at: at))
    }

    /// `notBefore` and `expiresAt` by the wall clock as it is set now; 0: none.
    package func start(_ now: Moment) -> Int64 { BootTimes.wall(notBefore, bootTimes.start, now) }
    package func expiry(_ now: Moment) -> Int64 { BootTimes.wall(expiresAt, bootTimes.expiry, now) }

    /// Sets `bootTimes` from the stored columns.
    mutating func take(boot: Int64) {
        bootTimes = spanBoot != 0 && spanBoot == boot ? BootTimes(start: max(startUptime, 0), expiry: max(expiryUptime, 0)) : BootTimes()
    }

    /// A stored priority that is out of range counts as the nearest valid one.
    static func valid(priority: Int64) -> Int32 {
        Int32(clamping: min(max(priority, Int64(DraftRule.priorities.lowerBound)), Int64(DraftRule.priorities.upperBound)))
    }

    /// Throws if the row does not match its checksums.
    func check() throws(QueueError) {
        guard stateHash == Self.hash(sequence, progress) else { throw damaged("state") }
        guard hasWholeBody else { return }
        let hash = body.withUnsafeBytes { hashOfContent($0) }
        guard contentHash == hash else { throw damaged("content") }
    }

    private func damaged(_ what: String) -> QueueError {
        QueueError(.corrupt, "message \(sequence) is damaged: the checksum of its \(what) does not match")
    }

    package func metadata() throws(QueueError) -> [(key: String, value: String)] {
        guard let metadataText else { return [] }
        guard let pairs = MetadataCodec.decode(metadataText) else { throw damaged("metadata") }
        return pairs
    }

    func hashOfContent(_ body: UnsafeRawBufferPointer) -> Int64 {
        var checksum = Checksum()
        checksum.add(body)
        checksum.add(id)
        checksum.add(conversation.text)
        if let sender { checksum.add(sender) }
        if let metadataText { checksum.add(metadataText) }
        checksum.add(createdAt)
        checksum.add(editedAt)
        checksum.add(notBefore)
        checksum.add(expiresAt)
        checksum.add(unmeteredOnly ? 1 : 0)
        // Rows that are older than these columns have neither, and their checksums do not include them.
        if priority != 0 || replaceKey != nil {
            checksum.add(priority)
            checksum.add(replaceKey ?? "")
        }
        // A message without a time of its own may be out of order all the same.
        if timeAt != 0, timeAt != max(createdAt, 1) { checksum.add(timeAt) }
        if spanBoot != 0 || startUptime != 0 || expiryUptime != 0 {
            checksum.add(spanBoot)
            checksum.add(startUptime)
            checksum.add(expiryUptime)
        }
        return checksum.stored
    }

    static func hash(_ sequence: Int64, _ progress: Progress) -> Int64 {
        var checksum = Checksum()
        let values: (Int64, Int64, Int64, Int64, Int64, Int64, Int64, Int64, Int64, Int64, Int64) = (
            sequence, Int64(progress.status.rawValue), Int64(progress.attempts), Int64(progress.retriesUsed), progress.dueAt,
            progress.dueDelay, progress.lastAttemptAt, progress.sentAt, progress.sentDuration,
            Int64(progress.sentCode),
            RowFlags(progress).rawValue
        )
        withUnsafeBytes(of: values) { checksum.add($0) }
        // Rows that are older than these columns have none of them, and their checksums do not include them.
        let later = (progress.deliveredAt, progress.readAt, progress.dueBoot, progress.dueUptime)
        if later != (0, 0, 0, 0) { withUnsafeBytes(of: later) { checksum.add($0) } }
        return checksum.stored
    }
}

extension Row {
    /// Returns the change of the counts when the message gets this status or (nil) is removed.
    func change(to status: MessageStatus?) -> Counts {
        var delta = Counts()
        if isCounted { delta.add(progress.status, isReceived: isReceived, amount: -1, bytes: 0 &- bodySize) }
        if let status { delta.add(status, isReceived: isReceived, amount: 1, bytes: bodySize) }
        return delta
    }

    /// Returns the size of a body as it is counted; an invalid size counts as 0.
    static func countedSize(_ bytes: Int64) -> Int64 { (0...Options.bodyCeiling).contains(bytes) ? bytes : 0 }
}
