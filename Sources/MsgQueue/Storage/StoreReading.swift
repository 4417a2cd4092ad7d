/// Reading messages.
extension Store {
    /// The bytes of a large body that its preview needs, and one more, which says that there are more.
    private static let startOfBody = Preview.bytes + 1

    /// The part of a message to read.
    package enum Part {
        /// All; all but the end of a large body; all but the body. A row that does not match its checksum is an error.
        case whole, start, none
        /// What is needed to remove the message, even if the rest is damaged.
        case outline
    }

    /// Reads the current row of a statement and verifies it. `ofAnyType`: the values may have other types than their columns, which only an
    /// UPDATE of the row does not allow.
    func read(_ fields: Fields<MessageColumn>, _ part: Part, ofAnyType: Bool = false) throws(QueueError) -> Row {
        guard ofAnyType || ColumnTypes.agree(fields) else {
            throw QueueError(.corrupt, "message \(fields.int(.seq)) is damaged: a column has a value of another type")
        }
        var row = try Row(fields)
        row.take(boot: state.clock.boot)
        switch part {
        case .none, .outline: break
        case .whole, .start:
            if fields.isNull(.body) {
                // Until the store is checked, nothing of a body is shown before the checksum of all of it was compared.
                if part == .start, isCheckDue { _ = try read(fields, .whole) }
                row.body = try largeBody(row.sequence, part)
                row.hasWholeBody = part == .whole
            } else {
                row.body = fields.blob(.body)
                row.hasWholeBody = true
            }
        }
        if row.hasWholeBody, Int64(row.body.count) != row.bodySize {
            throw QueueError(.corrupt, "message \(row.sequence) is damaged: its body has the wrong size")
        }
        try row.check()
        return row
    }

    private func largeBody(_ sequence: Int64, _ part: Part) throws(QueueError) -> [UInt8] {
        let body: [UInt8]?
        if part == .whole {
            let statement = try database.statement("SELECT body FROM large_body WHERE seq = ?1")
            statement.bind(1, sequence)
            body = try statement.first { () throws(QueueError) in statement.blob(0) }
        } else {
            body = try database.start(ofBlob: "body", in: "large_body", row: sequence, count: Self.startOfBody)
        }
        guard let body else { throw QueueError(.corrupt, "message \(sequence) is damaged: its body is missing") }
        return body
    }

    /// Returns the message with this id; nil: there is none.
    package func find(_ id: String, _ part: Part) throws(QueueError) -> Row? {
        guard let sequence = try sequence(of: id) else { return nil }
        return try row(at: sequence, part)
    }

    /// Returns whether there is a message with this id.
    package func contains(_ id: String) throws(QueueError) -> Bool { try sequence(of: id) != nil }

    /// Returns the message with this sequence number. A row that does not match its checksum is read again from the disk before it counts
    /// as damaged.
    package func row(at sequence: Int64, _ part: Part) throws(QueueError) -> Row? {
        guard part != .outline else { return try outline(at: sequence) }
        return try database.readingTwice { () throws(QueueError) in try readRow(at: sequence, part) }
    }

    private func readRow(at sequence: Int64, _ part: Part) throws(QueueError) -> Row? {
        let statement = try database.statement("SELECT \(MessageColumn.self) FROM message WHERE seq = ?1")
        statement.bind(1, sequence)
        return try statement.first { () throws(QueueError) in try read(Fields(statement), part) }
    }

    private func outline(at sequence: Int64) throws(QueueError) -> Row? {
        let statement = try database.statement("SELECT \(OutlineColumn.self) FROM message WHERE seq = ?1")
        statement.bind(1, sequence)
        return try statement.first { () throws(QueueError) in Row(Fields<OutlineColumn>(statement)) }
    }

    /// Returns the sequence number of the message with this id. The index of ids may be damaged, so its result is compared with the row.
    func sequence(of id: String) throws(QueueError) -> Int64? {
        if let sequence = MessageID.sequence(in: id), try matches(sequence, id, isNamed: false) { return sequence }
        guard let indexed = try namedSequence(id) else { return nil }
        if try matches(indexed, id, isNamed: true) { return indexed }
        Log.warning("\(path): the index of ids is damaged and is rebuilt from the messages")
        try repairs.run { () throws(QueueError) in try database.execute("REINDEX message_named") }
        guard let rebuilt = try namedSequence(id) else { return nil }
        guard try matches(rebuilt, id, isNamed: true) else {
            throw QueueError(.corrupt, "the index of ids is damaged and cannot be rebuilt")
        }
        return rebuilt
    }

    private func namedSequence(_ id: String) throws(QueueError) -> Int64? {
        let statement = try database.statement("SELECT seq FROM message INDEXED BY message_named WHERE id = ?1 AND named = 1")
        try statement.bind(1, id)
        return try statement.first { () throws(QueueError) in statement.int(0) }
    }

    /// Returns whether the message with this sequence number has this id, or may have it because it is damaged.
    private func matches(_ sequence: Int64, _ id: String, isNamed: Bool) throws(QueueError) -> Bool {
        let statement = try database.statement("SELECT id, named FROM message WHERE seq = ?1")
        statement.bind(1, sequence)
        guard let found = try statement.first({ () throws(QueueError) in (statement.text(0), statement.bool(1)) }) else { return false }
        if found == (id, isNamed) { return true }
        do throws(QueueError) { _ = try row(at: sequence, .whole) } catch {
            guard error.code == .corrupt else { throw error }
            return true
        }
        return false
    }

    /// Returns when a message was enqueued; nil: it is gone.
    package func createdAt(_ sequence: Int64) throws(QueueError) -> Int64? {
        let statement = try database.statement("SELECT created_at FROM message WHERE seq = ?1")
        statement.bind(1, sequence)
        return try statement.first { () throws(QueueError) in statement.int(0) }
    }

    /// Returns the sequences of a page.
    package func sequences(_ filter: Filter, sending: Set<Int64>) throws(QueueError) -> [Int64] {
        try PageQuery(filter, sending, self).sequences()
    }
}
