/// The drafts of one call, in order. Their texts and bodies stay in the caller's memory until the call ends. Only a part of the drafts is
/// decoded at a time, so that a large batch needs little memory beside the caller's.
package final class DraftBatch {
    /// Returns the drafts at these positions.
    package typealias Decoder = (Range<Int>) throws(QueueError) -> [BorrowedDraft]

    /// What all drafts need together.
    struct Needs {
        /// Bytes of disk space.
        var space: Int64 = 0
        /// Bytes of the bodies.
        var bytes: Int64 = 0
        var hasIDs = false
        var hasKeys = false
    }

    /// The largest number of drafts that are decoded at a time.
    package static let partSize = 1024

    package let count: Int
    var needs = Needs()
    /// nil: all drafts are decoded.
    private let decode: Decoder?
    /// The drafts that are decoded now.
    private var part: [BorrowedDraft] = []
    private var partStart = 0

    package init(count: Int, _ decode: @escaping Decoder) { (self.count, self.decode) = (count, decode) }

    package init(_ draft: BorrowedDraft) { (count, decode, part) = (1, nil, [draft]) }

    /// Messages that are like `draft` except for their bodies, which follow one another in `bodies` and have these sizes.
    package convenience init(_ bodies: UnsafeRawBufferPointer, sizes: UnsafeBufferPointer<Int>, like draft: BorrowedDraft) {
        // The position after the drafts that were decoded last, and where its body begins.
        var (next, start) = (0, 0)
        self.init(count: sizes.count) { range throws(QueueError) in
            if next != range.lowerBound { (next, start) = (0, 0) }
            var drafts: [BorrowedDraft] = []
            drafts.reserveCapacity(range.count)
            while next < range.upperBound {
                let (size, left) = (sizes[next], bodies.count - start)
                guard size >= 0, size <= left else {
                    throw QueueError(.invalid, "body \(next) has \(UInt(bitPattern: size)) bytes, but only \(left) are left")
                }
                if next >= range.lowerBound {
                    var draft = draft
                    draft.body = UnsafeRawBufferPointer(rebasing: bodies[start..<start + size])
                    drafts.append(draft)
                }
                (next, start) = (next + 1, start + size)
            }
            return drafts
        }
    }

    /// The same drafts, each changed when it is decoded. `change` gets its position, too.
    func map(_ change: @escaping (Int, BorrowedDraft) -> BorrowedDraft) -> DraftBatch {
        DraftBatch(count: count) { [decode, part] range throws(QueueError) in zip(range, try decode?(range) ?? part).map(change) }
    }

    /// The draft at a position from 0 to `count - 1`.
    func draft(at index: Int) throws(QueueError) -> BorrowedDraft {
        if !part.indices.contains(index - partStart) { try load(index) }
        return part[index - partStart]
    }

    private func load(_ index: Int) throws(QueueError) {
        guard let decode else { throw QueueError(.internal, "there is no draft \(index)") }
        part = []
        let start = index / Self.partSize * Self.partSize
        let range = start..<min(start + Self.partSize, count)
        let drafts = try decode(range)
        guard drafts.count == range.count else { throw QueueError(.internal, "\(drafts.count) drafts instead of \(range.count)") }
        (part, partStart) = (drafts, start)
    }

    /// Calls `body` with each draft and its position.
    func forEach(from first: Int = 0, _ body: (Int, BorrowedDraft) throws(QueueError) -> Void) throws(QueueError) {
        for index in first..<max(first, count) { try body(index, try draft(at: index)) }
    }

    /// Checks each draft, and adds up what all of them need. Called once, before the drafts are stored.
    func prepare(_ check: (Int, BorrowedDraft) throws(QueueError) -> Void) throws(QueueError) {
        try forEach { index, draft throws(QueueError) in
            try check(index, draft)
            needs.space = needs.space.addingClamped(DiskSpace.needed(for: draft))
            needs.bytes = needs.bytes.addingClamped(Int64(draft.body.count))
            if draft.id != nil { needs.hasIDs = true }
            if draft.replaceKey != nil { needs.hasKeys = true }
        }
    }
}

extension DraftBatch {
    /// Checks the drafts. `wall`: the time from which their delays count.
    func prepare(_ options: Options, wall: Int64) throws(QueueError) {
        try prepare { index, draft throws(QueueError) in
            do throws(QueueError) { try DraftRule.check(draft, options, wall: wall) } catch { throw error.ofDraft(index, of: count) }
        }
    }

    /// Checks messages that are like `draft` except for these bodies.
    func prepare(_ bodies: UnsafeRawBufferPointer, like draft: BorrowedDraft, _ options: Options, wall: Int64) throws(QueueError) {
        guard draft.id == nil, draft.replaceKey == nil else {
            throw QueueError(.invalid, "the draft of several bodies must have no id and no replace_key")
        }
        try DraftRule.check(draft, options, wall: wall)
        try prepare { index, draft throws(QueueError) in
            do throws(QueueError) { try DraftRule.check(bodySize: draft.body.count, options) } catch {
                throw QueueError(error.code, "body \(index): \(error.detail)")
            }
        }
        let left = Int64(bodies.count) - needs.bytes
        guard left == 0 else { throw QueueError(.invalid, "\(left) bytes after the last body") }
    }
}
