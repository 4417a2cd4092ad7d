/// How far the queued messages in the store have been read, and in which order: by age (`scan`), by age beside the conversations that have
/// messages with a priority (`findPriorities`), or one conversation after another (`survey`).
package struct BacklogReading {
    /// How many messages, or conversations, one read takes.
    package var chunk = Scheduler.scanChunk
    /// The most messages with a priority whose conversations are read beside the scan.
    package var mostPriorities = 1_024

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

    init(byExpiry: Bool) { (self.byExpiry, isRanked, surveys) = (byExpiry, byExpiry, byExpiry) }

    /// The survey has passed some conversations and not all.
    var isSurveying: Bool { surveys && !isComplete && surveyedThrough != nil }

    /// Something was read. Later messages of it reach the index by inputs, so that it is not read again.
    var hasBegun: Bool { isComplete || surveyedThrough != nil || scannedThrough > 0 || knowsPriorities }

    /// Whether the scan has passed this place, or nothing is left to be read.
    func hasPassed(_ sequence: Int64) -> Bool { isComplete || sequence <= scannedThrough }

    /// Whether the scan would find the message too late: by its priority it may go before those that the scan finds first.
    func comesBeforeScan(_ head: Head) -> Bool { isRanked && head.priority != 0 && !isComplete }

    /// The read that must precede the choice of the next message, apart from the scan; nil: none.
    var next: Step? {
        guard isRanked, !isComplete else { return nil }
        if surveys { return .survey(after: surveyedThrough, limit: chunk) }
        return knowsPriorities ? nil : .findPriorities(limit: mostPriorities)
    }

    /// Whether the scan must go on before one of these is chosen: the first one, with its priority, and the oldest. What was not read has no
    /// priority.
    func needsScan(before first: Int64?, _ priority: Int32, oldest: Int64?) -> Bool {
        guard !surveys, !isComplete else { return false }
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
}
