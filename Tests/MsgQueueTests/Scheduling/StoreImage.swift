import CSQLite

/// The bytes of a store in memory.
enum StoreImage {
    /// Returns a store in which no attempts of these messages are in flight.
    static func without(_ sequences: [Int64], _ bytes: [UInt8]) throws -> [UInt8] {
        guard !sequences.isEmpty else { return bytes }
        var opened: OpaquePointer?
        defer { sqlite3_close(opened) }
        guard sqlite3_open(":memory:", &opened) == SQLITE_OK, let handle = opened,
            let copy = sqlite3_malloc64(UInt64(bytes.count))?.assumingMemoryBound(to: UInt8.self)
        else { throw PlainDatabase.Failure(message: "no database in memory") }
        bytes.withUnsafeBufferPointer { source in if let base = source.baseAddress { copy.update(from: base, count: source.count) } }
        let (size, flags) = (Int64(bytes.count), UInt32(SQLITE_DESERIALIZE_FREEONCLOSE | SQLITE_DESERIALIZE_RESIZEABLE))
        guard sqlite3_deserialize(handle, "main", copy, size, size, flags) == SQLITE_OK else {
            throw PlainDatabase.Failure(message: "the store cannot be loaded")
        }
        let list = sequences.map(String.init).joined(separator: ",")
        _ = try PlainDatabase.rows("DELETE FROM in_flight WHERE seq IN (\(list))", handle)
        var length: sqlite3_int64 = 0
        guard let result = sqlite3_serialize(handle, "main", &length, 0) else { throw PlainDatabase.Failure(message: "out of memory") }
        defer { sqlite3_free(result) }
        return Array(UnsafeBufferPointer(start: result, count: Int(length)))
    }
}
