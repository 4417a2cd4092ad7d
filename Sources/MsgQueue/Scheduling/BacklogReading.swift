/// How far the queued messages in the store have been read, and in which order: by age (`scan`), by age beside the conversations that have
/// messages with a priority (`findPriorities`), or one conversation after another (`survey`).
///
/// When the scan has met many messages that are scheduled for later, it leaves out the others of that kind: it finds those without a start
/// time (`findUnscheduled`), and those whose time has come by that time (`findScheduled`), and their conversations are read.
package struct BacklogReading {
    /// How many messages, or conversations, one read takes.
    package var chunk = Scheduler.scanChunk
    /// The most messages with a priority whose conversations are read beside the scan.
    package var mostPriorities = 1_024
    /// The number of messages scheduled for later from which on the scan leaves them out. Four times as many may be due at once.
    package var mostScheduled = Scheduler.scanChunk
    /// How many messages without a start time one read finds: for each a conversation may have to be read.
    private static let foundAtOnce = 32
    /// How long before its time a scheduled message is found, and read (milliseconds): the wall clock and that of a duration may differ by
    /// almost a second before the stored times are corrected.
    private static let (foundBefore, readBefore): (Int64, Int64) = (1_000, 2_000)

    /// The order depends on more than the age: the head of every conversation that may go before older ones must be known.
    package private(set) var isRanked: Bool
    private let byExpiry: Bool
    /// With `isRanked`: the conversations are found one after another instead of by the scan.
    private(set) var surveys: Bool
    /// With `isRanked` and a scan: the conversations of the messages with a priority are known.
    private var knowsPriorities = false
    /// Queued messages up to this sequence have been scanned.
    private(set) var scannedThrough: Int64 = 0
    /// Conversations up to this name have been surveyed; nil: none.
    private var surveyedThrough: Name?
    /// The store has no queued message that was not read.
    package var isComplete = false
    /// How many messages scheduled for later the scan has met.
    private var metScheduled = 0
    /// The scan reads them, however many it meets.
    private var readsScheduled = false
    /// The scan leaves them out; nil: it does not.
    private var leftOut: LeftOut?

    private struct LeftOut {
        /// Those with a time up to this one are in the index (milliseconds since 1970).
        var through: Int64 = 0
        /// The next time, or an earlier one; nil: there is none.
        var next: Int64? = 0
        /// All messages without a start time have been found.
        var isExhausted = false
    }

    init(byExpiry: Bool) { (self.byExpiry, isRanked, surveys) = (byExpiry, byExpiry, byExpiry) }

    /// The survey has passed some conversations and not all.
    var isSurveying: Bool { surveys && !isComplete && surveyedThrough != nil }

    /// Something was read. Later messages of it reach the index by inputs, so that it is not read again.
    var hasBegun: Bool { isComplete || surveyedThrough != nil || scannedThrough > 0 || knowsPriorities }

    /// The messages before a place that the scan has passed may be unread.
    var leavesOut: Bool { leftOut != nil && !isComplete }

    /// The scan finds nothing more.
    var isAtEnd: Bool { isComplete || leftOut?.isExhausted == true }

    /// Whether the scan has passed this place, or has ended.
    func hasPassed(_ sequence: Int64) -> Bool { isAtEnd || sequence <= scannedThrough }

    /// Whether the scan would find the message too late: by its priority it may go before those that the scan finds first.
    func comesBeforeScan(_ head: Head) -> Bool { isRanked && head.priority != 0 && !isComplete }

    /// The read that must precede the choice of the next message, apart from the scan; nil: none.
    func next(_ now: Moment) -> Step? {
        guard !isComplete else { return nil }
        if surveys { return .survey(after: surveyedThrough, limit: chunk) }
        if isRanked, !knowsPriorities { return .findPriorities(limit: mostPriorities) }
        guard let leftOut, let next = leftOut.next, next <= now.wall.addingClamped(Self.foundBefore) else { return nil }
        return .findScheduled(after: leftOut.through, through: now.wall.addingClamped(Self.readBefore), limit: 4 * mostScheduled)
    }

    /// The next step of the scan. Messages up to `cleared` count as gone.
    func scan(clearedThrough cleared: Int64) -> Step {
        let from = max(scannedThrough, cleared)
        return leavesOut ? .findUnscheduled(after: from, limit: min(chunk, Self.foundAtOnce)) : .scan(after: from, limit: chunk)
    }

    /// When the next scheduled message must be found that was left out (monotonic); nil: none was.
    func wakeTime(_ now: Moment) -> Int64? {
        guard leavesOut, let next = leftOut?.next else { return nil }
        let wait = next.subtractingClamped(Self.foundBefore).subtractingClamped(now.wall)
        return now.mono.addingClamped(min(wait, Scheduler.longestSleep))
    }

    /// Whether the scan must go on before one of these is chosen: the first one, with its priority, and the oldest. What was not read has no
    /// priority.
    func needsScan(before first: Int64?, _ priority: Int32, oldest: Int64?) -> Bool {
        guard !surveys, !isAtEnd else { return false }
        guard let first, let oldest, oldest <= scannedThrough else { return true }
        return priority == 0 ? first > scannedThrough : priority < 0
    }

    // MARK: Changes

    /// Returns false if the order depended on more than the age already.
    mutating func rank() -> Bool {
        defer { isRanked = true }
        return !isRanked
    }

    /// Reads everything again.
    mutating func restart() {
        (scannedThrough, surveyedThrough, isComplete) = (0, nil, false)
        (surveys, knowsPriorities) = (byExpiry, false)
        (metScheduled, readsScheduled, leftOut) = (0, false, nil)
    }

    /// From now on the conversations are found one after another.
    mutating func beginSurvey() {
        restart()
        surveys = true
    }

    mutating func foundPriorities() { knowsPriorities = true }

    mutating func surveyed(through last: Name?, complete: Bool) {
        if let last { surveyedThrough = last }
        if complete { isComplete = true }
    }

    mutating func scanned(through sequence: Int64) { scannedThrough = max(scannedThrough, sequence) }

    /// Notes messages scheduled for later that the scan has read.
    mutating func met(scheduled count: Int) {
        guard leftOut == nil, !readsScheduled else { return }
        metScheduled += count
        if metScheduled >= mostScheduled { leftOut = LeftOut() }
    }

    /// Scheduled messages are in the index up to this time. `next`: the time of the next one; nil: there is none.
    mutating func foundScheduled(through time: Int64, next: Int64?) {
        leftOut?.through = time
        leftOut?.next = next
    }

    /// Whether an enqueued message is found later although it is behind all others: by the scan, which goes on, or at its time.
    mutating func finds(_ head: Head) -> Bool {
        guard leavesOut, let leftOut else { return true }
        if head.notBefore == 0 {
            self.leftOut?.isExhausted = false
            return true
        }
        return leftOut.next.map { head.notBefore > max($0, leftOut.through) } ?? false
    }

    /// The next scheduled message may have changed or be gone.
    mutating func searchScheduled() { leftOut?.next = 0 }

    /// All messages without a start time have been found.
    mutating func foundAll() { leftOut?.isExhausted = true }

    /// Reads the scheduled messages that were left out as well.
    mutating func readScheduled() {
        guard leavesOut else { return }
        (scannedThrough, leftOut, readsScheduled) = (0, nil, true)
    }
}
