/// Calls of the transport that are to be made, for attempts whose beginning is committed, and calls that have returned. It has a mutex of its
/// own, so that a worker makes several quick calls after one another without the engine's lock.
final class CallQueue: @unchecked Sendable {
    /// An attempt that has begun, with what the transport gets.
    struct Attempt {
        let start: Core.Start
        let delivery: Delivery

        var flight: Flight { start.flight }
    }

    /// A call of the transport, with everything that it needs.
    struct Call {
        /// One, or those of a batch.
        fileprivate(set) var attempts: [Attempt]
        let transport: Registration<Transport>
        /// The batch whose further attempts will begin, so that no thread takes the call yet; nil: all have begun.
        var gathering: UInt64?
        /// The attempts can be withdrawn before the call is made.
        var isRevocable = false
        /// When the call began, which the engine counts against the rate; nil: there is no limit of the rate.
        var beginning: CallBeginning?

        /// The token of the first attempt.
        var batch: UInt64 { attempts.first?.flight.token ?? 0 }

        func contains(_ token: UInt64) -> Bool { attempts.contains { $0.flight.token == token } }

        /// Calls the transport. Returns an outcome for each attempt.
        func perform(_ mono: () -> Int64) -> [Outcome] {
            func begins() { beginning?.note(mono()) }
            switch transport.function {
            case .single(let send): return attempts.map { send($0.delivery, begins) }
            case .batch(let send, _): return BatchRule.complete(send(attempts.map(\.delivery), begins), count: attempts.count)
            }
        }
    }

    /// A call that has returned, or that was revoked before it was made.
    struct Returned {
        let call: Call
        /// nil: it was revoked.
        let outcomes: [Outcome]?
        /// The places of the outcomes that are not handled yet, the next one last.
        var places: [Int]

        init(_ call: Call, _ outcomes: [Outcome]?) {
            (self.call, self.outcomes) = (call, outcomes)
            places = outcomes.map { BatchRule.settlingOrder($0.map(\.verdict)).reversed() } ?? []
        }
    }

    /// The most attempts that begin in one commit.
    private static let mostPerCommit = 16
    /// Calls below this average duration, in nanoseconds, are made one after another by one thread: waking another one takes as long.
    private static let quickTime = 50_000.0
    /// The longest duration that counts for the average, so that one slow call does not count for long.
    private static let longestTime = 8 * quickTime
    /// How long an outcome waits for those of further calls, in nanoseconds.
    private static let gatheringTime: UInt64 = 1_000_000

    private let mutex = Mutex()
    private var waiting: [Call] = []
    private var returned: [Returned] = []
    /// When the first of `returned` returned.
    private var firstReturnedAt: UInt64 = 0
    /// The calls that are being made, with their beginning (monotonic).
    private var underWay: [(call: Call, since: Int64)] = []
    private var taken = 0
    /// How many calls the threads that have returned from `make` will handle.
    private var owed = 0
    /// nil: no call of the present transport has returned.
    private var averageTime: Double?
    private var wasPending = false
    private let mono: @Sendable () -> Int64
    /// Whether a thread may make further calls before the outcome of its call is handled.
    private let chains: Bool

    /// `mono` is the clock of the engine. `chains`: a thread may make several calls, one after another, before their outcomes are handled.
    init(mono: @escaping @Sendable () -> Int64, chains: Bool) { (self.mono, self.chains) = (mono, chains) }

    /// What the engine needs to know to provide threads.
    struct State {
        /// Calls that wait for a thread, or outcomes that wait to be handled.
        let hasWork: Bool
        /// Threads inside the transport.
        let underWay: Int
        /// The number of calls that were taken by a thread until now.
        let taken: Int
        /// How long work waits for a thread that is inside the transport, in milliseconds.
        let patience: Int64
    }

    var state: State {
        mutex.withLock { State(hasWork: hasWork, underWay: underWay.count, taken: taken, patience: patience) }
    }

    /// Whether there are calls that no thread has taken, also of batches that are not complete.
    var hasWaiting: Bool { mutex.withLock { !waiting.isEmpty } }

    /// Whether an attempt has begun whose call no thread makes: it waits, or it was revoked and must be put back.
    var hasUntaken: Bool { mutex.withLock { isAnyComplete || returned.contains { $0.outcomes == nil } } }

    /// The most attempts that may begin in the next commit. When calls take long, an attempt begins only when a thread is ready to call.
    var attemptsPerCommit: Int { mutex.withLock { isQuick ? Self.mostPerCommit : 1 } }

    private var hasWork: Bool { isAnyComplete || !returned.isEmpty }

    private var isAnyComplete: Bool { waiting.contains { $0.gathering == nil } }

    private var isQuick: Bool { wasPending || averageTime.map { $0 < Self.quickTime } ?? false }

    /// A transport that leaves its attempts pending, or whose calls are quick, will return soon. The first call of a transport may be of
    /// either kind.
    private var patience: Int64 { wasPending ? 20 : isQuick || averageTime == nil ? 2 : 0 }

    func add(_ call: Call) { mutex.withLock { waiting.append(call) } }

    /// Whether this call is still waiting for further attempts: it was not revoked.
    func isGathering(_ batch: UInt64) -> Bool { mutex.withLock { waiting.contains { $0.gathering == batch } } }

    /// Adds attempts to a call that waits for them. Returns false if it does not.
    func extend(_ batch: UInt64, by attempts: [Attempt]) -> Bool {
        mutex.withLock {
            guard let place = waiting.firstIndex(where: { $0.gathering == batch }) else { return false }
            waiting[place].attempts += attempts
            return true
        }
    }

    /// Lets a thread take a call that waited for further attempts, if it was not revoked.
    func complete(_ batch: UInt64) {
        mutex.withLock {
            guard let place = waiting.firstIndex(where: { $0.gathering == batch }) else { return }
            (waiting[place].attempts, waiting[place].gathering) = (waiting[place].attempts.grouped, nil)
        }
    }

    /// Returns the next call, to be passed to `make`.
    func take() -> Call? { mutex.withLock { takeLocked() } }

    private func takeLocked() -> Call? {
        guard let place = waiting.firstIndex(where: { $0.gathering == nil }) else { return nil }
        let call = waiting.remove(at: place)
        underWay.append((call, mono()))
        taken &+= 1
        return call
    }

    /// Makes the call, and further ones while that is better than to handle the outcomes first. Without the engine's lock. `isOwnProcess`:
    /// the call did not return in a forked child. Returns how many calls it made: this thread handles so many next, and then calls
    /// `attended`.
    @discardableResult
    func make(_ first: Call, isOwnProcess: () -> Bool) -> Int {
        var next: Call? = first
        var made = 0
        while let call = next {
            let startedAt = Ports.nanoseconds()
            let outcomes = call.perform(mono)
            guard isOwnProcess() else { return 0 }
            made += 1
            next = mutex.withLock {
                let next = finish(call, outcomes, startedAt)
                if next == nil { owed += made }
                return next
            }
        }
        return made
    }

    /// Notes that a thread has handled so many of the calls that it owed, or that others have handled them.
    func attended(_ calls: Int) { mutex.withLock { owed = max(0, owed - calls) } }

    /// How many calls the threads will handle that have returned from `make`.
    var owedCalls: Int { mutex.withLock { owed } }

    /// Notes the outcomes. Returns the next call to be made by the same thread, if any.
    private func finish(_ call: Call, _ outcomes: [Outcome], _ startedAt: UInt64) -> Call? {
        let now = Ports.nanoseconds()
        underWay.removeAll { $0.call.batch == call.batch }
        append(call, outcomes, now)
        wasPending = outcomes.contains { $0.verdict == .pending }
        let (time, average) = (min(Double(now &- startedAt), Self.longestTime), averageTime ?? Self.longestTime)
        averageTime = average + (time - average) / 8
        // Any other outcome may mean that the calls that wait must not be made.
        guard chains, outcomes.allSatisfy(Classification.letsOthersContinue), isQuick,
            let next = waiting.first(where: { $0.gathering == nil }), next.beginning == nil
        else { return nil }
        return now &- firstReturnedAt < Self.gatheringTime ? takeLocked() : nil
    }

    private func append(_ call: Call, _ outcomes: [Outcome]?, _ now: UInt64) {
        if returned.isEmpty { firstReturnedAt = now }
        returned.append(Returned(call, outcomes))
    }

    /// Returns since when the call is being made (monotonic); now, if it waits or its outcome does; nil: it left its attempt pending.
    func beginning(of token: UInt64) -> Int64? {
        mutex.withLock {
            if let entry = underWay.first(where: { $0.call.contains(token) }) { return entry.since }
            let isKept = waiting.contains { $0.contains(token) } || returned.contains { $0.call.contains(token) }
            return isKept ? mono() : nil
        }
    }

    /// Returns the calls that have returned or were revoked, in this order.
    func takeReturned() -> [Returned] {
        mutex.withLock {
            defer { returned.removeAll(keepingCapacity: true) }
            return returned
        }
    }

    /// Revokes those of the calls that no thread has taken which must not be made any more; a batch as a whole.
    func revoke(where isForbidden: (Flight) -> Bool) {
        mutex.withLock {
            let now = Ports.nanoseconds()
            waiting.removeAll { call in
                guard call.isRevocable, call.attempts.contains(where: { isForbidden($0.flight) }) else { return false }
                append(call, nil, now)
                return true
            }
        }
    }

    /// Revokes the calls that no thread has taken: the queue is closed. Those that cannot be revoked are as if the transport had left them
    /// pending.
    func close() {
        mutex.withLock {
            let now = Ports.nanoseconds()
            for call in waiting { append(call, call.isRevocable ? nil : call.attempts.map { _ in .pending }, now) }
            waiting = []
        }
    }

    /// A new transport may be slower or quicker.
    func forgetTimes() { mutex.withLock { (averageTime, wasPending) = (nil, false) } }

    /// Initialises the mutex again, in a forked child. Calls of the parent's threads are forgotten.
    func detachForkedChild() {
        mutex.reset()
        (waiting, returned, underWay, owed) = ([], [], [], 0)
    }
}

extension [CallQueue.Attempt] {
    /// Those of a batch in the order in which its call gets them: grouped by conversation.
    var grouped: [CallQueue.Attempt] {
        BatchRule.grouped(map { ($0.flight.conversation, $0.flight.sequence) }).map { self[$0] }
    }
}
