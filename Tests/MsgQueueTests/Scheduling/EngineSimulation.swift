@testable import MsgQueue

/// The engine itself over a store in memory, in virtual time. A test makes each input and answers each attempt; nothing else happens.
///
/// Its messages have the ids `m1`, `m2` and so on, by their sequences.
class EngineSimulation {
    let options: Options
    /// The limits of a batch transport; nil: a transport for single messages.
    let limits: BatchLimits?
    private(set) var clock: SimulatedClock
    let disk: SimulatedDisk
    private(set) var process: SimulatedProcess
    private(set) var hasTransport: Bool
    /// The calls of the transport hang until `answer` or `returnCall`. Otherwise they return and leave their attempts pending.
    var answersInCall = false
    private var hangingCalls: [CallQueue.Call] = []
    private var network: Network?
    let journal: SimulationJournal
    /// An unexpected error of a call, which the next `settle` throws.
    var failure: (any Error)?
    /// The ids of the messages by their sequences.
    private var ids: [Int64: String] = [:]
    /// The number of messages enqueued with a key.
    private var keyed = 0
    /// How long the read of a message that is about to be sent takes, in milliseconds.
    var workTime: () -> Int64 = { 0 }
    private(set) var storeIsBroken = false

    init(_ options: Options = Options(), hasTransport: Bool = true, batches: BatchLimits? = nil) throws {
        self.options = options
        self.hasTransport = hasTransport
        limits = batches
        let clock = SimulatedClock(start: 1_700_000_000_000, seed: 1)
        self.clock = clock
        disk = SimulatedDisk()
        journal = SimulationJournal(options, clock)
        process = try SimulatedProcess(options, clock, disk)
        try begin()
    }

    /// A copy, in which a test tries what happens next. The calls that are being made never return, and nobody waits for a drain.
    init(copyOf other: EngineSimulation) throws {
        (options, limits, hasTransport, network) = (other.options, other.limits, other.hasTransport, other.network)
        (ids, keyed, storeIsBroken) = (other.ids, other.keyed, other.storeIsBroken)
        clock = other.clock.copy()
        disk = SimulatedDisk(image: try StoreImage.without(other.flights.map(\.sequence), other.disk.bytes))
        journal = SimulationJournal(options, clock)
        process = try SimulatedProcess(options, clock, disk)
        observe()
        try context.lock.withLock { () throws(QueueError) in
            try context.store.begin()
            for flight in other.flights {
                try context.store.attempts.begin(attempt: flight.number, of: flight.sequence, at: flight.startedAt.wall)
            }
            try context.store.commit(durable: false)
            if hasTransport { _ = engine.attempts.setTransport(registration) }
            context.core = other.core
            // The sums that a prompt needs are not in the store.
            let count = PromptCount(context)
            if context.core.scheduler.prompt.isPrepared, options.mode == .ask { while try !count.prepare(now) {} }
        }
    }

    convenience init(
        _ mode: Mode, direct: Bool = true, backoff: Backoff = .automatic, maxInFlight: Int = 1, _ change: (inout Options) -> Void = { _ in }
    ) throws {
        try self.init(Self.options(mode, direct, backoff, maxInFlight, change))
    }

    static func options(
        _ mode: Mode, _ direct: Bool, _ backoff: Backoff, _ maxInFlight: Int, _ change: (inout Options) -> Void
    ) -> Options {
        var options = Options(mode: mode, backoff: backoff, maxInFlight: maxInFlight)
        options.direct = direct
        change(&options)
        return options
    }

    deinit { process.dispose() }

    // MARK: The process

    private func observe() {
        journal.owner = self
        process.observe(journal)
        locked { context.observer = journal }
    }

    private func begin() throws(QueueError) {
        observe()
        journal.judge.opened(now)
        opened()
        if hasTransport {
            willSetTransport(true)
            try register()
        }
        if let network {
            willSetNetwork(network)
            try engine.setNetwork(network)
        }
    }

    /// Ends the process as SIGKILL does, and opens the store in another one, which does not know the network.
    func restart(hasTransport: Bool = true) {
        network = nil
        reopen(hasTransport: hasTransport)
    }

    /// `isFilled`: the store may be filled beyond its limits.
    private func reopen(hasTransport: Bool, isFilled: Bool = false) {
        process.dispose()
        hangingCalls = []
        journal.returns = [:]
        self.hasTransport = hasTransport
        perform { () throws(QueueError) in
            var options = options
            if isFilled { (options.limitMessages, options.limitBytes) = (0, 0) }
            process = try SimulatedProcess(options, clock, disk)
            try begin()
        }
    }

    /// Closes the store and ends the process. Sequence numbers have no gap then.
    private func closeStore() {
        perform { () throws(QueueError) in
            try context.lock.withLock { () throws(QueueError) in
                let store = context.store
                try store.begin()
                try store.history.settle()
                try store.counts.fold()
                store.state.close(store.counts.totals)
                try store.commit(durable: true)
            }
        }
    }

    /// Switches the machine off for a number of milliseconds of the wall clock, which may have been set meanwhile.
    func reboot(after milliseconds: Int64) {
        clock = SimulatedClock(start: now.wall + milliseconds, mono: 1_000, seed: 1)
        journal.clock = clock
        journal.judge = PaceJudge(options)
        restart()
    }

    // MARK: For simulations that check more

    /// Another process has opened the store, without a transport.
    func opened() {}
    func willSetTransport(_ isPresent: Bool) {}
    func willSetNetwork(_ network: Network) {}
    /// The transport is called with these attempts.
    func called(_ flights: [Flight]) {}
    /// An attempt is about to be put in flight.
    func begins(_ start: Core.Start) {}
    /// A fact is about to be written.
    func records(_ fact: Fact) {}
    func received(_ event: Event) {}

    private var isObserving = false

    /// Calls an observer, under the engine's lock.
    func observing(_ body: () -> Void) {
        let before = isObserving
        isObserving = true
        body()
        isObserving = before
    }

    /// Runs under the engine's lock, which an observer holds already.
    func locked<T, E: Error>(_ body: () throws(E) -> T) throws(E) -> T {
        isObserving ? try body() : try context.lock.withLock(body)
    }

    /// Makes a call that is expected to succeed.
    func perform(_ call: () throws(QueueError) -> Void) {
        do throws(QueueError) { try call() } catch {
            // A store that was broken refuses the call.
            if storeIsBroken, error.code == .storage { return }
            if failure == nil { failure = error }
        }
    }

    /// Adds messages that an earlier process left.
    func preload(_ conversations: [Name], _ change: (inout SimulatedMessage) -> Void = { _ in }) {
        let (network, hadTransport, isInBackground) = (network, hasTransport, scheduler.gate.isInBackground)
        self.network = Network(connectivity: .offline)
        closeStore()
        reopen(hasTransport: false, isFilled: true)
        insert(conversations, change)
        closeStore()
        self.network = network
        reopen(hasTransport: false)
        if isInBackground { setBackground(true) }
        if hadTransport { setTransport(true) }
    }

    var engine: Engine { process.engine }
    var context: EngineContext { engine.context }
    var now: Moment { clock.now }

    func advance(_ milliseconds: Int64) { clock.move(to: now.mono + milliseconds) }

    /// Sets the wall clock. The kernel may report that or not (the clock of a host, in a virtual machine).
    func jumpWallClock(_ milliseconds: Int64, isReported: Bool = false) {
        clock.set(wall: now.wall + milliseconds)
        if isReported { scheduler.clockSet(now) }
    }

    /// Performs what is due, until nothing is or `most` attempts have started. Returns the number of starts.
    @discardableResult
    func settle(starts most: Int = .max) throws -> Int {
        let before = journal.starts
        context.lock.withLock {
            repeat {
                while journal.starts - before < most {
                    guard answersInCall ? beginHangingCall() : engine.driver.runCallback() else { break }
                }
                engine.driver.runDueSteps()
            } while journal.starts - before < most && (context.hasStart || engine.driver.stepAt <= now.mono)
        }
        if let failure = failure ?? journal.violation { throw failure }
        return journal.starts - before
    }

    /// Begins a call that hangs. Returns false if none is due.
    private func beginHangingCall() -> Bool {
        engine.driver.runDueSteps()
        guard context.hasStart, var call = engine.driver.nextCall() else {
            engine.driver.runDueSteps()
            return context.hasStart
        }
        // It begins now, and returns later.
        if call.beginning != nil { for attempt in call.attempts { context.core.called(attempt.start, at: now.mono) } }
        call.beginning = nil
        hangingCalls.append(call)
        observing { journal.called(call.attempts.map(\.flight)) }
        return true
    }

    /// Performs what is due and answers, until no attempt is in progress.
    func run(_ answer: (Int64) -> Outcome = { _ in .sent }) throws {
        for _ in 0..<100_000 {
            try settle()
            guard let sequence = inFlight.first else { return }
            try self.answer(sequence, answer(sequence))
        }
        throw Violation("the simulation does not end")
    }

    // MARK: Messages

    /// Enqueues in one commit. Returns the sequences.
    @discardableResult
    func enqueue(
        _ conversations: [Name], key: String? = nil, _ change: (inout SimulatedMessage) -> Void = { _ in }
    ) -> [Int64] {
        insert(conversations, key: key, change)
    }

    /// `refused`: called with an error; by default the next `settle` throws it.
    @discardableResult
    final func insert(
        _ conversations: [Name], key: String? = nil, refused: ((QueueError) -> Void)? = nil, _ change: (inout SimulatedMessage) -> Void
    ) -> [Int64] {
        let first = lastSequence + 1
        let drafts = conversations.enumerated().map { place, conversation in
            var message = SimulatedMessage(sequence: first + Int64(place), id: "m\(first + Int64(place))", conversation: conversation)
            change(&message)
            // A message has an id of its own also in the place of another.
            keyed += key == nil ? 0 : 1
            return draft(message, id: key == nil ? message.id : "\(message.id)-\(keyed)", key)
        }
        do throws(QueueError) {
            _ = try MessageQueue.Draft.withBorrowed(drafts) { batch throws(QueueError) in try engine.enqueue(batch) }
        } catch {
            if let refused { refused(error) } else if failure == nil { failure = error }
            return []
        }
        // With a key the next one may have taken its place.
        let messages = drafts.compactMap { draft in draft.id.flatMap { try? engine.message(id: $0) } }
        for message in messages { ids[message.sequence] = message.id }
        return messages.map(\.sequence)
    }

    private func draft(_ message: SimulatedMessage, id: String, _ key: String?) -> MessageQueue.Draft {
        func time(_ wall: Int64) -> MessageQueue.Timestamp? { wall == 0 ? nil : .init(millisecondsSince1970: wall) }
        return MessageQueue.Draft(
            message.body, conversation: message.conversation.text, id: id, notBefore: time(message.notBefore),
            expiresAt: time(message.expiresAt), unmeteredOnly: message.unmeteredOnly, replaceKey: key, priority: Int(message.priority))
    }

    @discardableResult
    final func enqueue(
        _ conversation: Name, count: Int = 1, key: String? = nil, _ change: (inout SimulatedMessage) -> Void = { _ in }
    ) -> [Int64] {
        enqueue(Array(repeating: conversation, count: count), key: key, change)
    }

    func id(_ sequence: Int64) -> String { ids[sequence] ?? "m\(sequence)" }

    /// Returns the error; nil: the call succeeded.
    func code(_ call: () throws(QueueError) -> Void) -> QueueError.Code? {
        do throws(QueueError) { try call() } catch { return error.code }
        return nil
    }

    @discardableResult
    func sendNow(_ sequence: Int64) -> QueueError.Code? { code { () throws(QueueError) in try engine.sendNow(id(sequence)) } }

    @discardableResult
    func retry(_ sequence: Int64) -> QueueError.Code? { code { () throws(QueueError) in try engine.retry(id(sequence)) } }

    @discardableResult
    func delete(_ sequence: Int64) -> QueueError.Code? { code { () throws(QueueError) in try engine.delete(id(sequence)) } }

    func clear(_ conversation: Name? = nil) { perform { () throws(QueueError) in try engine.clear(conversation?.text) } }

    /// Returns the number of messages that were put back.
    @discardableResult
    func retryAll(_ conversation: Name? = nil) -> Int { (try? engine.retryAll(conversation?.text)).map { Int($0) } ?? 0 }

    /// Answers the attempt of this message, which is in flight.
    func answer(_ sequence: Int64, _ outcome: Outcome) throws {
        guard let flight = flights.first(where: { $0.sequence == sequence }) else {
            throw Violation("message \(sequence) is not in flight")
        }
        try answer(flight, outcome)
    }

    /// Answers when the call returns or, with `early`, by token while the call still runs.
    final func answer(_ flight: Flight, _ outcome: Outcome, early: Bool = false) throws {
        guard early || !returnCall(flight.token, outcome) else { return }
        try engine.complete(flight.token, outcome)
    }

    /// Returns a hanging call with an outcome for this attempt, and none for the others. Returns false if there is no such call.
    @discardableResult
    func returnCall(_ token: UInt64, _ outcome: Outcome?) -> Bool {
        guard let place = hangingCalls.firstIndex(where: { $0.contains(token) }) else { return false }
        let call = hangingCalls.remove(at: place)
        for attempt in call.attempts { journal.returns[attempt.flight.token] = .pending }
        journal.returns[token] = outcome ?? .pending
        context.lock.withLock { engine.outcomes.make(call) { engine.writes.commit() } }
        return true
    }

    /// Answers after the time-out.
    func answerLate(_ token: UInt64, _ outcome: Outcome) { try? engine.complete(token, outcome) }

    // MARK: The environment

    func setTransport(_ isPresent: Bool) {
        hasTransport = isPresent
        willSetTransport(isPresent)
        perform { () throws(QueueError) in if isPresent { try register() } else { try engine.setTransport(nil) } }
    }

    private func register() throws(QueueError) { try engine.setTransport(registration) }

    private var registration: Registration<Transport> {
        let (context, journal) = (context, journal)
        let call: BatchTransportFunction = { deliveries in
            let tokens = deliveries.map(\.token).filter { journal.returns[$0] == nil }
            if !tokens.isEmpty {
                context.lock.withLock {
                    let flights = tokens.compactMap { context.core.scheduler.flights[$0] }
                    journal.owner?.observing { journal.called(flights) }
                }
            }
            return deliveries.map { journal.returns[$0.token] ?? .pending }
        }
        guard let limits else {
            let single: TransportFunction = { call([$0]).first ?? .pending }
            return Registration(single)
        }
        return Registration(batches: limits, call)
    }

    func setNetwork(_ connectivity: Connectivity, metered: Bool = false) {
        let new = Network(connectivity: connectivity, link: .other, metered: metered)
        network = new
        willSetNetwork(new)
        perform { () throws(QueueError) in try engine.setNetwork(new) }
    }

    func goOffline() { setNetwork(.offline) }
    func goOnline(metered: Bool = false) { setNetwork(.online, metered: metered) }

    func setBackground(_ isInBackground: Bool) {
        perform { () throws(QueueError) in try engine.setLifecycle(isInBackground: isInBackground) }
    }

    func pause(_ conversation: Name? = nil) { perform { () throws(QueueError) in try engine.pause(conversation?.text) } }
    func resume(_ conversation: Name? = nil) { perform { () throws(QueueError) in try engine.resume(conversation?.text) } }
    func close() { scheduler.closing() }
    /// From now on the store refuses every write.
    func breakStore() { (storeIsBroken, disk.fate) = (true, { _, _ in .refused }) }
    func mendStore() { (storeIsBroken, disk.fate) = (false, { _, _ in .stored }) }

    /// Returns false when it joined another drain, or there is no transport.
    @discardableResult
    func drain(_ conversation: Name? = nil, batch: Int = 0, timeout: Int64? = nil) -> Bool {
        guard hasTransport else { return false }
        let before = scheduler.gate.drains.count
        perform { () throws(QueueError) in try engine.drain(conversation?.text, batch: batch, timeout: timeout) { _ in } }
        return scheduler.gate.drains.count > before
    }
}
