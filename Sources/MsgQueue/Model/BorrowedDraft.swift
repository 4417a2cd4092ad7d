/// A draft whose body is in the caller's memory; only the store copies it.
package struct BorrowedDraft {
    package var id: String?
    package var conversation: Name
    package var body: UnsafeRawBufferPointer
    package var metadata: [(key: String, value: String)]
    package var notBefore: Int64
    package var expiresAt: Int64
    package var unmeteredOnly: Bool
    /// Replaces queued messages of this key in the conversation; nil or empty: none.
    package var replaceKey: String?
    package var priority: Int32

    package init(
        id: String?, conversation: Name, body: UnsafeRawBufferPointer, metadata: [(key: String, value: String)],
        notBefore: Int64, expiresAt: Int64, unmeteredOnly: Bool, replaceKey: String? = nil, priority: Int32 = 0
    ) {
        self.id = id
        self.conversation = conversation
        self.body = body
        self.metadata = metadata
        self.notBefore = notBefore
        self.expiresAt = expiresAt
        self.unmeteredOnly = unmeteredOnly
        self.replaceKey = replaceKey == "" ? nil : replaceKey
        self.priority = priority
    }

    /// Returns one draft like this one for each body. The bodies follow one another in `bodies`, and `check` accepts each size.
    package func with(
        _ bodies: UnsafeRawBufferPointer, sizes: UnsafeBufferPointer<Int>, _ check: (Int) throws(QueueError) -> Void
    ) throws(QueueError) -> [BorrowedDraft] {
        var drafts: [BorrowedDraft] = []
        drafts.reserveCapacity(sizes.count)
        var (draft, start, left) = (self, bodies.baseAddress, bodies.count)
        for (index, size) in sizes.enumerated() {
            guard size >= 0, size <= left else {
                throw QueueError(.invalid, "body \(index) has \(UInt(bitPattern: size)) bytes, but only \(left) are left")
            }
            do throws(QueueError) { try check(size) } catch { throw QueueError(error.code, "body \(index): \(error.detail)") }
            draft.body = UnsafeRawBufferPointer(start: size > 0 ? start : nil, count: size)
            (start, left) = (start.map { $0 + size }, left - size)
            drafts.append(draft)
        }
        guard left == 0 else { throw QueueError(.invalid, "\(left) bytes after the last body") }
        return drafts
    }
}

extension [UInt8] {
    /// `withUnsafeBytes` with typed throws.
    package func withBytes<T>(_ body: (UnsafeRawBufferPointer) throws(QueueError) -> T) throws(QueueError) -> T {
        try withUnsafeBufferPointer { bytes throws(QueueError) in try body(UnsafeRawBufferPointer(bytes)) }
    }
}
