/// The attempts in flight, and what limits their number: slots and the rate.
package struct Flights {
    private var byToken: [UInt64: Flight] = [:]
    /// The number of attempts that have ended.
    private(set) var outcomes: UInt64 = 0
    /// The limit of the rate, with its ramp; nil: none.
    package internal(set) var pace: Pace?
    /// The limits of a batch; nil: the transport sends one message in a call.
    package internal(set) var limits: BatchLimits?
    /// The most attempts in flight, without a ramp.
    private let fullSlots: Int

    /// The number of calls that have not returned after their timeout and that are not counted against `maxInFlight`.
    static let hungCeiling = 16

    init(_ options: Options, openedAt now: Int64) {
        fullSlots = options.maxInFlight
        pace = Pace(options, openedAt: now)
    }

    package internal(set) subscript(token: UInt64) -> Flight? {
        get { byToken[token] }
        set { byToken[token] = newValue }
    }

    package var values: Dictionary<UInt64, Flight>.Values { byToken.values }
    package var isEmpty: Bool { byToken.isEmpty }

    /// Those without an outcome.
    package var open: some Sequence<Flight> { byToken.values.lazy.filter { !$0.isEnded } }

    /// The messages of `open`.
    var openSequences: Set<Int64> { Set(open.lazy.map(\.sequence)) }

    package var inFlight: Int { byToken.values.count { !$0.isEnded } }

    /// Attempts that a drain waits for, including those with an outcome whose call has not returned.
    var underWay: Int { byToken.values.count { !$0.isHung } }

    func underWay(in session: DrainQueue.Session) -> Int { byToken.values.count { !$0.isHung && session.serves($0.conversation) } }

    /// The attempt of this message, if it has no outcome yet.
    func flight(of sequence: Int64, in lane: Lane) -> Flight? {
        guard let last = lane.flight else { return nil }
        func open(_ token: UInt64) -> Flight? {
            guard let flight = byToken[token], flight.sequence == sequence, !flight.isEnded else { return nil }
            return flight
        }
        return open(last) ?? lane.otherFlights.lazy.compactMap(open).first
    }

    /// The messages of the lane after this one whose attempts have no outcome.
    func sequences(in lane: Lane, after sequence: Int64) -> Set<Int64> {
        Set(lane.tokens.lazy.compactMap { byToken[$0] }.filter { !$0.isEnded && $0.sequence > sequence }.map(\.sequence))
    }

    /// The attempt whose deadline has passed, the oldest first.
    func overdue(_ now: Moment) -> UInt64? {
        byToken.values.filter { !$0.isEnded && $0.deadline <= now.mono }.min { $0.token < $1.token }?.token
    }

    /// The first deadline; nil: no attempt is open.
    var deadline: Int64? { byToken.values.lazy.filter { !$0.isEnded }.map(\.deadline).min() }

    // MARK: Slots

    /// The most attempts in flight, or with `maxBatches` the most batches.
    package var mostSlots: Int { max(fullSlots, limits?.maxBatches ?? 0) }

    /// The most attempts in flight now, or with `maxBatches` the most batches. While sending ramps up, as few batches as attempts.
    package var slots: Int {
        let attempts = pace?.maxInFlight ?? fullSlots
        guard let batches = limits?.maxBatches, batches > 0 else { return attempts }
        return pace?.isRamping == true ? min(batches, attempts) : batches
    }

    /// The attempts or batches that count against `slots`. Those of up to `hungCeiling` hung calls do not count.
    package var slotsTaken: Int {
        let hung = hungBatches
        let exempt = hung.count > Self.hungCeiling ? Set(hung.sorted().prefix(Self.hungCeiling)) : hung
        let counted = byToken.values.lazy.filter { !($0.isHung && exempt.contains($0.batch)) }
        return (limits?.maxBatches ?? 0) > 0 ? Set(counted.map(\.batch)).count : counted.count { _ in true }
    }

    /// Calls of the transport that have not returned after their timeout.
    package var hung: Int { hungBatches.count }

    private var hungBatches: Set<UInt64> { Set(byToken.values.lazy.filter(\.isHung).map(\.batch)) }

    /// The most messages of a batch that begins now; nil: the transport sends one message in a call.
    var room: Int? { limits.map { BatchRule.room($0, taken: slotsTaken, slots: slots) } }

    // MARK: Changes

    /// Adds an attempt. `called` follows.
    mutating func begin(_ flight: Flight) {
        pace?.reserve()
        byToken[flight.token] = flight
    }

    /// Notes when the call of the transport for this attempt began, once. The attempt may have ended since.
    package mutating func called(_ token: UInt64, at time: Int64) {
        guard pace != nil else { return }
        if byToken[token] != nil {
            byToken[token]?.isCalled = true
            pace?.release()
        }
        pace?.began(at: time)
    }

    @discardableResult
    mutating func remove(_ token: UInt64) -> Flight? {
        let flight = byToken.removeValue(forKey: token)
        if flight?.isCalled == false { pace?.release() }
        return flight
    }

    /// Notes an outcome. The attempt is removed, unless its call has not returned. Returns nil if it is unknown.
    mutating func end(_ token: UInt64, timedOut: Bool) -> Flight? {
        guard var flight = byToken[token] else { return nil }
        (flight.isEnded, flight.timedOut) = (true, timedOut)
        byToken[token] = flight
        if !flight.isRunning { remove(token) }
        outcomes &+= 1
        return flight
    }

    /// Notes that the call returned. The attempt is removed and returned, unless it has no outcome.
    mutating func returned(_ token: UInt64) -> Flight? {
        byToken[token]?.isRunning = false
        return byToken[token]?.isEnded == true ? remove(token) : nil
    }

    /// Counts the time of an attempt from `since`, if that is later than its start (monotonic). Returns its deadline.
    package mutating func countTimeout(of token: UInt64, from since: Int64) -> Int64 {
        guard var flight = byToken[token] else { return Int64.min }
        flight.extend(by: max(since.subtractingClamped(flight.startedAt.mono), 0))
        byToken[token] = flight
        return flight.deadline
    }

    /// Extends the deadlines by the time for which the machine was suspended.
    package mutating func machineSlept(_ time: Int64) {
        for token in Array(byToken.keys) { byToken[token]?.extend(by: time) }
    }
}
