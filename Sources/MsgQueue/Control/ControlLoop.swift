import CPlatform
import Glibc

/// The thread of a control socket: accepts clients, reads their requests, and writes answers and events. It waits for no client.
final class ControlLoop: @unchecked Sendable {
    /// The number of lines of one client that are handled before other clients have their turn.
    private static let linesPerTurn = 32
    /// The pause after a connection could not be accepted, and how long the end waits for clients, in milliseconds.
    private static let acceptPause: Int64 = 100
    private static let endPatience: Int64 = 200

    private let engine: Engine
    private let address: ControlAddress
    private let mailbox: ControlMailbox
    private let limits: ControlLimits
    private let calls: ControlCalls
    private let lineCeiling: Int
    private var clients: [ControlClient] = []
    private var clientCount = 0
    private var jobs: [Int: EngineThread] = [:]
    private var jobCount = 0
    /// No connection is accepted before this time.
    private var acceptsAt: Int64 = 0
    /// When the next summary event may be sent, and whether one is due.
    private var (summaryAt, isSummaryDue): (Int64, Bool) = (0, false)

    init(_ engine: Engine, _ address: ControlAddress, _ mailbox: ControlMailbox, _ limits: ControlLimits) {
        (self.engine, self.address, self.mailbox, self.limits) = (engine, address, mailbox, limits)
        calls = ControlCalls(engine: engine, limits: limits)
        lineCeiling = limits.line(engine.context.options)
    }

    private var now: Int64 { Ports.milliseconds(CLOCK_MONOTONIC) }

    func run() {
        while true {
            let polled = wait()
            let contents = mailbox.take()
            deliver(contents)
            if contents.isStopped { break }
            if polled.isAcceptable { accept() }
            for (client, events) in zip(clients, polled.clients) { serve(client, events) }
            endLateClients()
            clients.removeAll { $0.isClosed || $0.isComplete }
            observe()
        }
        end()
    }

    // MARK: Waiting

    private struct Polled {
        var isAcceptable: Bool
        /// What happened on the connections of the clients, in their order.
        var clients: [Int32]
    }

    private func wait() -> Polled {
        let now = now
        var watched = [pollfd(fd: mailbox.descriptor, events: Int16(POLLIN), revents: 0)]
        watched.append(pollfd(fd: acceptsAt <= now ? address.listener.number : -1, events: Int16(POLLIN), revents: 0))
        var deadline = acceptsAt > now ? acceptsAt : Int64.max
        if isSummaryDue { deadline = min(deadline, summaryAt) }
        // A drain is slowed down by a thread that wakes for each of its events. While all of them are held, they come together.
        let nextDelivery = nextDelivery(now)
        mailbox.setPatient(nextDelivery != nil)
        if let nextDelivery { deadline = min(deadline, nextDelivery) }
        for client in clients {
            var events: Int32 = 0
            if client.unread > 0 { events |= POLLOUT }
            if reads(client) {
                // A line that has arrived waits for its turn.
                if client.hasLine { deadline = now } else if !client.isInputEnded { events |= POLLIN }
            } else {
                client.inputWaits(now)
            }
            deadline = min(deadline, client.deadline(limits))
            watched.append(pollfd(fd: client.descriptor.number, events: Int16(events), revents: 0))
        }
        let timeout = deadline == Int64.max ? -1 : Int32(clamping: max(deadline.subtractingClamped(now), 0))
        // After an interrupted or failed wait nothing has happened, and the next one follows.
        let count = poll(&watched, nfds_t(watched.count), timeout)
        guard count > 0 else { return Polled(isAcceptable: false, clients: clients.map { _ in 0 }) }
        return Polled(isAcceptable: watched[1].revents != 0, clients: watched[2...].map { Int32($0.revents) })
    }

    /// Returns the time of the next delivery of events, if every subscriber gets them later and together; otherwise nil.
    private func nextDelivery(_ now: Int64) -> Int64? {
        let subscribers = clients.filter { $0.subscription != nil }
        guard let next = subscribers.map(\.heldUntil).min(), next > now, subscribers.allSatisfy({ $0.interval > 0 }) else { return nil }
        return next
    }

    /// Whether requests of the client are read: not while much waits to be read by it.
    private func reads(_ client: ControlClient) -> Bool { !client.isEnding && client.unread <= limits.answerRoom }

    // MARK: Clients

    private func accept() {
        for _ in 0..<64 {
            guard let descriptor = ControlDescriptor({ platform_accept(address.listener.number) }) else {
                // Without a free descriptor the connection stays in the backlog.
                if errno != EAGAIN, errno != EINTR, errno != ECONNABORTED { acceptsAt = now.addingClamped(Self.acceptPause) }
                return
            }
            clientCount += 1
            let client = ControlClient(clientCount, descriptor, lineCeiling: lineCeiling, now)
            let user = platform_peer_user(descriptor.number)
            if user != Int64(geteuid()), user != 0 {
                refuse(client, QueueError(.permission, "only the user who owns the queue, and root, may connect"))
            } else if clients.count >= limits.clients, !disconnectIdleClient() {
                refuse(client, QueueError(.busy, "\(limits.clients) clients are connected, which is the limit"))
            } else {
                client.send(ControlLine.greeting(store: engine.context.store.path, process: getpid()), now)
                client.flush(now)
                clients.append(client)
            }
        }
    }

    /// Disconnects the client that has been idle the longest. Returns false if none has been idle for long enough.
    private func disconnectIdleClient() -> Bool {
        let idle = clients.compactMap { client in client.idleSince.map { (client: client, since: $0) } }
        guard let longest = idle.min(by: { $0.since < $1.since }), now.subtractingClamped(longest.since) >= limits.idleTime else {
            return false
        }
        let error = QueueError(.busy, "disconnected while idle: \(limits.clients) clients were connected, which is the limit")
        longest.client.send(ControlLine.error(error, of: .null), now)
        longest.client.flush(now)
        longest.client.close()
        clients.removeAll { $0 === longest.client }
        return true
    }

    /// Tells a peer why it is disconnected. The buffer of a new connection has space for the line.
    private func refuse(_ client: ControlClient, _ error: QueueError) {
        client.send(ControlLine.error(error, of: .null), now)
        client.flush(now)
    }

    private func serve(_ client: ControlClient, _ events: Int32) {
        if events & (POLLHUP | POLLERR) != 0 { client.peerIsGone() }
        if events & (POLLIN | POLLHUP) != 0, reads(client), !client.hasLine { client.receive(now) }
        var left = Self.linesPerTurn
        var enqueues = ControlEnqueues()
        while left > 0, reads(client), !client.isClosed, let line = client.nextLine(now) {
            left -= 1
            if client.isTooLong(line) {
                perform(&enqueues, client)
                endForTooLong(client)
            } else if !line.allSatisfy({ $0 == 0x20 || $0 == 0x09 || $0 == 0x0d }) {
                let request = ControlRequest(line: line)
                if !enqueues.add(request) {
                    perform(&enqueues, client)
                    if !enqueues.add(request) { handle(request, client) }
                }
            }
        }
        perform(&enqueues, client)
        if !client.isEnding, client.isTooLong() { endForTooLong(client) }
        client.flush(now)
    }

    private func endForTooLong(_ client: ControlClient) {
        client.end(ControlLine.error(QueueError(.tooLarge, "a line has more than \(lineCeiling) bytes"), of: .null), now)
    }

    private func endLateClients() {
        let now = now
        for client in clients {
            if client.lineDeadline(limits) <= now {
                client.end(ControlLine.error(QueueError(.timeout, "a line was not complete in time"), of: .null), now)
                client.flush(now)
            }
            if client.answerDeadline(limits) <= now { client.close() }
        }
    }

    // MARK: Requests

    private func handle(_ request: ControlRequest, _ client: ControlClient) {
        do throws(QueueError) {
            let call = try request.call.get()
            switch call {
            case .subscribe(let names, let interval):
                client.subscription = names
                client.interval = interval
                observe()
            case .unsubscribe: client.subscription = nil
            case .drain(let conversation, let batch, let timeout, let includesFailed):
                try drain(conversation, batch, timeout, includesFailed, request.id, client)
                return
            case _ where ControlCalls.isJob(call):
                try startJob(call, request.id, client)
                return
            default:
                client.send(ControlLine.result(try calls.perform(call), of: request.id), now)
                return
            }
            client.send(ControlLine.result([:], of: request.id), now)
        } catch {
            client.send(ControlLine.error(error, of: request.id), now)
        }
    }

    /// Stores the messages of consecutive requests in one transaction. If that fails, each request is performed on its own.
    private func perform(_ enqueues: inout ControlEnqueues, _ client: ControlClient) {
        let requests = enqueues.takeAll()
        if requests.count > 1 {
            do throws(QueueError) {
                for (request, id) in zip(requests, try calls.enqueue(requests.map(\.draft))) {
                    client.send(ControlLine.result(["message": .string(id)], of: request.request.id), now)
                }
                return
            } catch {
                // A failed flush may have stored the messages. After any other error nothing was stored.
                if error.code == .unknown {
                    for request in requests { client.send(ControlLine.error(error, of: request.request.id), now) }
                    return
                }
            }
        }
        for request in requests { handle(request.request, client) }
    }

    private func checkPending(_ client: ControlClient) throws(QueueError) {
        guard client.pending < limits.pendingCalls else {
            throw QueueError(.busy, "\(client.pending) calls of this client have not ended, which is the limit")
        }
    }

    private func drain(
        _ conversation: String?, _ batch: Int, _ timeout: Int64?, _ includesFailed: Bool, _ id: JSONValue, _ client: ControlClient
    ) throws(QueueError) {
        try checkPending(client)
        let number = client.number
        try engine.drain(conversation, batch: batch, timeout: timeout, includesFailed: includesFailed) { [mailbox] result in
            mailbox.answer(ControlMailbox.Answer(client: number, line: ControlLine.answer(result.map { JSONValue($0) }, of: id), job: nil))
        }
        client.pending += 1
    }

    private func startJob(_ call: ControlCall, _ id: JSONValue, _ client: ControlClient) throws(QueueError) {
        try checkPending(client)
        guard jobs.count < limits.jobs else { throw QueueError(.busy, "\(jobs.count) long calls are running, which is the limit") }
        jobCount += 1
        let (number, job) = (client.number, jobCount)
        let thread = EngineThread("msgq-ctl-job") { [calls, mailbox] in
            let result: Result<JSONValue, QueueError>
            do throws(QueueError) {
                result = .success(try calls.performJob(call) { mailbox.isStopped })
            } catch {
                result = .failure(error)
            }
            mailbox.answer(ControlMailbox.Answer(client: number, line: ControlLine.answer(result, of: id), job: job))
        }
        guard let thread else { throw QueueError(.storage, "failed to create a thread") }
        jobs[job] = thread
        client.pending += 1
    }

    // MARK: Events and later answers

    private func deliver(_ contents: ControlMailbox.Contents) {
        for (event, at) in contents.events { publish(event, at) }
        if contents.isSummaryDue { isSummaryDue = true }
        if isSummaryDue, summaryAt <= now { publishSummary() }
        for answer in contents.answers {
            if let job = answer.job { jobs.removeValue(forKey: job)?.join() }
            guard let client = clients.first(where: { $0.number == answer.client }) else { continue }
            client.pending -= 1
            client.send(answer.line, now)
        }
        for client in clients {
            if !client.held.isEmpty, client.heldUntil <= now { deliverHeld(client) }
            client.flush(now)
        }
    }

    private func publish(_ event: Event, _ at: Int64) {
        let name = EventName(event)
        // Every subscriber must know that events were lost.
        let subscribers = clients.filter { client in client.subscription.map { $0.contains(name) || name == .resync } ?? false }
        guard !subscribers.isEmpty else { return }
        let now = now
        for client in subscribers where client.interval > 0 {
            client.held.add(event, at: at)
            if client.heldUntil <= now { deliverHeld(client) }
        }
        send(event, at, to: subscribers.filter { $0.interval == 0 })
    }

    /// Sends the events that a client gets together. The next ones follow after its interval.
    private func deliverHeld(_ client: ControlClient) {
        for (event, at) in client.held.take() { send(event, at, to: [client]) }
        client.heldUntil = now.addingClamped(client.interval)
    }

    private func send(_ event: Event, _ at: Int64, to subscribers: [ControlClient]) {
        guard !subscribers.isEmpty else { return }
        let line = JSONWriter.line(JSONValue(event, at: at))
        let now = now
        for client in subscribers { client.send(event: line, room: limits.eventRoom, now) }
    }

    private func publishSummary() {
        isSummaryDue = false
        summaryAt = now.addingClamped(limits.summaryInterval)
        guard clients.contains(where: { $0.subscription?.contains(.summary) ?? false }) else { return }
        do throws(QueueError) {
            let (counts, network) = try engine.summary()
            publish(.summary(counts, network), engine.context.ports.wall())
        } catch {
            // The queue is closed.
        }
    }

    /// Observes the engine's events while any client subscribes to some.
    private func observe() { setObserver(clients.contains { $0.subscription != nil } ? mailbox : nil) }

    private func setObserver(_ observer: ControlMailbox?) {
        guard isObserving != (observer != nil) else { return }
        isObserving = observer != nil
        engine.setObserver(observer)
    }
    private var isObserving = false

    // MARK: The end

    /// Writes what clients can still take, then disconnects them.
    private func end() {
        setObserver(nil)
        for job in jobs.values { job.join() }
        jobs = [:]
        deliver(mailbox.take())
        mailbox.close()
        let end = now.addingClamped(Self.endPatience)
        while true {
            for client in clients { client.flush(now) }
            clients.removeAll { $0.isClosed || $0.unread == 0 }
            guard !clients.isEmpty, now < end else { break }
            var watched = clients.map { pollfd(fd: $0.descriptor.number, events: Int16(POLLOUT), revents: 0) }
            _ = poll(&watched, nfds_t(watched.count), Int32(clamping: max(end - now, 0)))
        }
        clients = []
    }
}
