/// What other places have handed over, inside the caller's transaction where it changes.
///
/// A row with an `id_hash` of 0 belongs to an open hand-over: the queue has, or had, the message, and the source may not have deleted its own yet.
/// The row is written by the transaction that stores the message, and stays whatever becomes of the message. The other rows say what could
/// not be kept.
final class HandOverTable {
    private let database: Database

    init(_ database: Database) { self.database = database }

    /// The bytes of disk space that a row needs beside its texts.
    static let rowSpace: Int64 = 128

    /// Whether the store has the table. One of layout 3 that was written before it gets it when it is opened.
    func hasTable() throws(QueueError) -> Bool {
        let tables = try database.statement("SELECT 1 FROM sqlite_schema WHERE name = 'handed_over'")
        return try tables.first { true } ?? false
    }

    /// Whether the open hand-over of the source contains the id.
    func contains(_ id: String, by source: String) throws(QueueError) -> Bool {
        let statement = try database.statement(
            "SELECT \(HandedOverColumn.self) FROM handed_over WHERE source = ?1 AND id_hash = 0 AND id = ?2")
        try statement.bind(1, source)
        try statement.bind(2, id)
        return try statement.first { () throws(QueueError) in
            _ = try Self.entry(statement, of: source)
            return true
        } ?? false
    }

    /// Returns everything that the source has handed over and that was not forgotten.
    func entries(by source: String) throws(QueueError) -> [HandOver.Entry] {
        let statement = try database.statement(
            "SELECT \(HandedOverColumn.self) FROM handed_over WHERE source = ?1 ORDER BY id_hash, id")
        try statement.bind(1, source)
        var entries: [HandOver.Entry] = []
        try statement.forEach { () throws(QueueError) in
            entries.append(try Self.entry(statement, of: source))
            return true
        }
        return entries
    }

    private static func entry(_ statement: Statement, of source: String) throws(QueueError) -> HandOver.Entry {
        guard let row = HandedOverRow(statement) else {
            throw QueueError(.corrupt, "the list of what \(LogText.line(source, bytes: 255)) has handed over is damaged")
        }
        return row.entry
    }

    /// Adds what became of a draft. `refusal`: why it is not kept.
    func note(
        _ id: String, by source: String, size: Int64, refusal: QueueError?, at: Int64
    ) throws(QueueError) {
        try write(HandedOverRow(source: source, id, size: size, refusal, at: at))
    }

    func write(_ row: HandedOverRow) throws(QueueError) {
        let statement = try database.statement(
            """
            INSERT OR REPLACE INTO handed_over(\(HandedOverColumn.self)) VALUES(\(parameters: HandedOverColumn.self))
            """)
        let fields = Fields<HandedOverColumn>(statement)
        try fields.bind(.source, row.source)
        fields.bind(.idHash, row.idHash)
        try fields.bind(.id, row.id)
        fields.bind(.code, row.code)
        fields.bind(.size, row.size)
        fields.bind(.at, row.at)
        try fields.bind(.text, row.text)
        fields.bind(.checksum, row.checksum)
        try statement.run()
    }

    /// Whether the source has an open hand-over.
    func isOpen(by source: String) throws(QueueError) -> Bool {
        let statement = try database.statement("SELECT 1 FROM handed_over WHERE source = ?1 AND id_hash = 0 LIMIT 1")
        try statement.bind(1, source)
        return try statement.first { true } ?? false
    }

    /// Forgets some ids of the source's open hand-over. Returns how many.
    func forget(by source: String, limit: Int) throws(QueueError) -> Int {
        let statement = try database.statement(
            """
            DELETE FROM handed_over WHERE source = ?1 AND id_hash = 0
              AND id IN (SELECT id FROM handed_over WHERE source = ?1 AND id_hash = 0 LIMIT ?2)
            """)
        try statement.bind(1, source)
        statement.bind(2, Int64(limit))
        try statement.run()
        return Int(database.changes)
    }

    /// Forgets drafts of the source that could not be kept: those with this id, or (nil) some of all. Returns how many.
    func forgetRefused(by source: String, id: String?, limit: Int) throws(QueueError) -> Int {
        let statement = try database.statement(
            """
            DELETE FROM handed_over WHERE source = ?1 AND (id_hash, id) IN (
              SELECT id_hash, id FROM handed_over WHERE source = ?1 AND id_hash > 0 AND (?2 IS NULL OR id = ?2) LIMIT ?3)
            """)
        try statement.bind(1, source)
        try statement.bind(2, id)
        statement.bind(3, Int64(limit))
        try statement.run()
        return Int(database.changes)
    }

    /// Returns the number of damaged rows.
    func damaged() throws(QueueError) -> Int {
        let statement = try database.statement("SELECT \(HandedOverColumn.self) FROM handed_over")
        var damaged = 0
        try statement.forEach {
            if HandedOverRow(statement) == nil { damaged += 1 }
            return true
        }
        return damaged
    }
}

/// A row of the table `handed_over`.
struct HandedOverRow {
    let source: String
    let id: String
    /// Of an id that may not be the given one; 0: it is.
    let idHash: Int64
    /// A code of `QueueError`; 0: none.
    let code: Int64
    let size: Int64
    let at: Int64
    let text: String

    init(source: String, _ id: String, size: Int64, _ refusal: QueueError?, at: Int64) {
        (self.source, self.size, self.at) = (source, size, at)
        guard let refusal else {
            (self.id, idHash, code, text) = (id, 0, 0, "")
            return
        }
        var hash = Checksum()
        hash.add(id)
        // Positive, so that it is no row of an open hand-over, and stands behind these.
        (self.id, idHash) = (LogText.line(id, bytes: DraftRule.nameCeiling), hash.stored & Int64.max | 1)
        (code, text) = (Int64(refusal.code.rawValue), refusal.detail)
    }

    /// Reads a row with all columns in order; nil: it is damaged.
    init?(_ statement: Statement) {
        let fields = Fields<HandedOverColumn>(statement)
        (source, idHash, id) = (fields.text(.source), fields.int(.idHash), fields.text(.id))
        (code, size, at) = (fields.int(.code), fields.int(.size), fields.int(.at))
        text = fields.text(.text)
        guard fields.int(.checksum) == checksum, (code == 0) == (idHash == 0), idHash >= 0 else { return nil }
        guard code == 0 || Int32(exactly: code).flatMap(QueueError.Code.init(rawValue:)) != nil else { return nil }
    }

    var checksum: Int64 {
        var checksum = Checksum()
        for text in [source, id, text] { checksum.add(text) }
        for number in [idHash, code, size, at] { checksum.add(number) }
        return checksum.stored
    }

    var entry: HandOver.Entry {
        let refusal = code == 0 ? nil : QueueError(Int32(exactly: code).flatMap(QueueError.Code.init(rawValue:)) ?? .corrupt, text)
        return HandOver.Entry(id: id, bodySize: size, at: at, refusal: refusal)
    }
}
