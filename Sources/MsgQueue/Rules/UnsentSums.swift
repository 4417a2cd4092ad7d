/// Which of the unsent messages may have to wait for something of their own, as sums by conversation.
///
/// The store reads them from two indexes, once and in steps, and then applies each change of a message. So what a drain would send is
/// counted without reading the messages.
package struct UnsentSums {
    package struct Sum: Sendable, Equatable {
        package var messages: Int64 = 0
        package var bytes: Int64 = 0

        package init(messages: Int64 = 0, bytes: Int64 = 0) { (self.messages, self.bytes) = (messages, bytes) }

        /// `adds`: false for the negative of it.
        package init(_ head: Head, adds: Bool = true) {
            self.init(messages: adds ? 1 : -1, bytes: adds ? head.bodySize : 0 &- head.bodySize)
        }

        package static func += (left: inout Sum, right: Sum) {
            left.messages &+= right.messages
            left.bytes &+= right.bytes
        }

        package static func -= (left: inout Sum, right: Sum) {
            left.messages &-= right.messages
            left.bytes &-= right.bytes
        }
    }

    /// The sums of one conversation or of all.
    package struct Part: Sendable, Equatable {
        /// Queued messages that are scheduled for a time after `border`.
        package fileprivate(set) var later = Sum()
        /// Other queued messages that require an unmetered link.
        package fileprivate(set) var unmetered = Sum()
        /// Failed messages.
        package fileprivate(set) var failed = Sum()
        /// Those of them that require an unmetered link, without those in `scheduledFailures`.
        package fileprivate(set) var failedUnmetered = Sum()

        fileprivate static func += (left: inout Part, right: Part) {
            left.later += right.later
            left.unmetered += right.unmetered
            left.failed += right.failed
            left.failedUnmetered += right.failedUnmetered
        }

        /// Whether messages may have to wait.
        package var mayWait: Bool { later.messages != 0 || unmetered.messages != 0 || failedUnmetered.messages != 0 }
    }

    package private(set) var all = Part()
    package private(set) var parts: [Name: Part] = [:]
    /// The queued messages that wait for a retry, or did, by conversation and sequence number.
    package private(set) var retries: [Name: [Int64: Head]] = [:]
    /// The failed messages that were scheduled for a time after `border` when they failed or were read.
    package private(set) var scheduledFailures: [Name: [Int64: Head]] = [:]
    /// The time until which messages count as due. (Places are by the time for which a message is scheduled.)
    package private(set) var border: TimePlace
    /// The queued messages up to this place have been read.
    package private(set) var readThrough = TimePlace.start
    /// The failed messages up to this sequence number have been read.
    package private(set) var failedThrough: Int64 = 0
    /// The transaction in progress has changed the sums.
    package var isTouched = false

    package init(at time: Int64 = 0) { border = TimePlace(time, Int64.max) }

    package var isInUse: Bool { readThrough != .start || failedThrough != 0 }

    package var isComplete: Bool { readThrough == .end && failedThrough == Int64.max }

    package func part(of conversation: Name) -> Part { parts[conversation] ?? Part() }

    // MARK: Reading the indexes

    /// Takes the queued messages after `readThrough`, or the failed ones after `failedThrough`, in order. `complete`: there are no more.
    package mutating func read(_ rows: [(conversation: Name, head: Head)], areFailed: Bool, complete: Bool) {
        for (conversation, head) in rows { count(head, conversation, isFailed: areFailed, adds: true) }
        if areFailed {
            failedThrough = complete ? Int64.max : rows.last?.head.sequence ?? failedThrough
        } else {
            readThrough = complete ? .end : rows.last.map { TimePlace($0.head.notBefore, $0.head.sequence) } ?? readThrough
        }
    }

    /// Takes the queued messages that have become due, in order, from `border` on. `time`: there are no more until then.
    package mutating func pass(_ rows: [(conversation: Name, head: Head)], through time: Int64?) {
        for (conversation, head) in rows {
            var delta = Part()
            delta.later = Sum(head, adds: false)
            if head.unmeteredOnly { delta.unmetered = Sum(head) }
            add(delta, to: conversation)
        }
        border = time.map { TimePlace($0, Int64.max) } ?? rows.last.map { TimePlace($0.head.notBefore, $0.head.sequence) } ?? border
    }

    // MARK: Changes of messages

    /// Applies a change of a message; nil: it was not stored before, or is not stored any more.
    package mutating func changed(from old: Row?, to new: Row?) {
        if let old {
            // A request by hand may have ended the delay before.
            if isRetried(old) {
                isTouched = true
                Self.set(nil, old.sequence, of: old.conversation, in: &retries)
            }
            count(old, adds: false)
        }
        if let new { count(new, adds: true) }
    }

    package func isRetried(_ row: Row) -> Bool { !retries.isEmpty && retries[row.conversation]?[row.sequence] != nil }

    private mutating func count(_ row: Row, adds: Bool) {
        guard row.isCounted, row.progress.status == .queued || row.progress.status == .failed else { return }
        let head = row.head
        let isFailed = row.progress.status == .failed
        guard isFailed ? head.sequence <= failedThrough : head.mayBeDeferred && TimePlace(head.notBefore, head.sequence) <= readThrough
        else {
            return
        }
        isTouched = true
        count(head, row.conversation, isFailed: isFailed, adds: adds)
    }

    private mutating func count(_ head: Head, _ conversation: Name, isFailed: Bool, adds: Bool) {
        let isLater = TimePlace(head.notBefore, head.sequence) > border
        let sum = Sum(head, adds: adds)
        var delta = Part()
        if isFailed {
            let isSingle = adds ? isLater : scheduledFailures[conversation]?[head.sequence] != nil
            if isSingle { Self.set(adds ? head : nil, head.sequence, of: conversation, in: &scheduledFailures) }
            delta.failed = sum
            if head.unmeteredOnly, !isSingle { delta.failedUnmetered = sum }
        } else {
            if isLater { delta.later = sum } else if head.unmeteredOnly { delta.unmetered = sum }
            if adds, !head.due.isNone { Self.set(head, head.sequence, of: conversation, in: &retries) }
        }
        add(delta, to: conversation)
    }

    private mutating func add(_ delta: Part, to conversation: Name) {
        all += delta
        var part = parts[conversation] ?? Part()
        part += delta
        parts[conversation] = part == Part() ? nil : part
    }

    private static func set(_ head: Head?, _ sequence: Int64, of conversation: Name, in heads: inout [Name: [Int64: Head]]) {
        heads[conversation, default: [:]][sequence] = head
        if heads[conversation]?.isEmpty == true { heads[conversation] = nil }
    }
}
