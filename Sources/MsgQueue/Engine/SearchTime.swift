/// How much one turn under the engine's lock may do before it waits: the search for messages that may start, and the end of many manual
/// requests, go on in the next millisecond; the explanations of a page after other calls.
struct SearchTime {
    /// In milliseconds.
    private static let longest: Int64 = 3
    /// So many reads are made for one part of a batch, however long they take. If every conversation has to be read, each message needs one.
    private static let readsPerPart = 64

    /// Monotonic.
    private var end: Int64 = 0
    /// The reads for the part of a batch that is being chosen.
    private var readsInPart = 0

    mutating func begin(at now: Int64) { (end, readsInPart) = (now.addingClamped(Self.longest), 0) }

    /// Counts a step if it may be made: the first `least` steps of its kind, and more until the time has passed.
    func allows(_ steps: inout Int, least: Int, _ now: Moment) -> Bool {
        guard steps < least || now.mono < end else { return false }
        steps += 1
        return true
    }

    mutating func allowsReadInPart(_ now: Moment) -> Bool {
        var reads = readsInPart
        defer { readsInPart = reads }
        return allows(&reads, least: Self.readsPerPart, now)
    }
}

/// How much one step of the count of the prompt may do.
struct PromptCountTime {
    /// In nanoseconds.
    private static let longest: Int64 = 1_000_000
    /// So many parts are done in any case: a step counts a short queue completely, even if its thread is interrupted meanwhile.
    private static let leastParts = 8

    let start = Ports.nanoseconds()
    private var parts = 0

    /// Counts a part if the step may do it.
    mutating func allowsPart() -> Bool {
        guard parts < Self.leastParts || Ports.nanoseconds() &- start < Self.longest else { return false }
        parts += 1
        return true
    }
}
