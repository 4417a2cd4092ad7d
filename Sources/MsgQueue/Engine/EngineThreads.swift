/// The engine's own threads: the timer, the teller of events, and those that call the transport.
extension Engine {
    func startServices() throws(QueueError) {
        try startService("msgq-timer") { [self] in runTimer() }
        if !options.polled { try startService("msgq-events") { [self] in runEvents() } }
    }

    private func startService(_ name: String, _ body: @escaping @Sendable () -> Void) throws(QueueError) {
        guard let thread = EngineThread(name, body) else { throw QueueError(.storage, "the system has no thread left") }
        services.append(thread)
    }

    /// Ends timer and event threads of a queue that could not be opened.
    func stopServices() {
        lock.withLock { phase = .closed }
        alarm.ring()
        eventCondition.broadcast()
        for thread in services { thread.join() }
        services = []
        alarm.close()
        poll?.close()
    }

    /// Performs what is due by time, and hears what the kernel says of clock and network.
    private func runTimer() {
        lock.lock()
        while phase != .closed {
            flushWhatIsDue()
            maintain()
            compareIndexes()
            settle()
            let monitor = monitor
            lock.unlock()
            let reason = alarm.sleep(network: monitor?.descriptor)
            let network = reason.contains(.network) || isMonitorDue(monitor) ? monitor?.changed() : nil
            lock.lock()
            if reason.contains(.deadline) { timerDeadline = nil }
            planMonitor()
            if reason.contains(.clockSet) { core.scheduler.clockSet(ports.moment) }
            if let network, let monitor, monitor === self.monitor { learned(network) }
        }
        lock.unlock()
    }

    // MARK: Who calls the transport

    /// How long an attempt waits for a thread that comes back from its call, before it gets a new one.
    private static let patience: Int64 = 2
    /// How long a thread that has nothing to call stays, in milliseconds. One stays for ever.
    private static let idleTime: Int64 = 10_000

    /// Finds a thread for the attempt that can start; until when to look again.
    func callWorker() -> Int64 {
        let now = ports.mono()
        let since = startWaitsSince ?? now
        startWaitsSince = since
        if workersIdle > 0 {
            workCondition.signal()
            return Int64.max
        }
        guard workersCalling < options.maxInFlight + Scheduler.hungCeiling, workers.count < 256 else { return Int64.max }
        // A transport that answers later gives its thread back at once: no need of another.
        guard workers.isEmpty || transport?.blocks ?? false || now - since >= Self.patience else { return since + Self.patience }
        workersBegun += 1
        let number = workersBegun
        guard let thread = EngineThread("msgq-worker", { [self] in runWorker(number) }) else {
            storageTrouble(QueueError(.storage, "the system has no thread left"))
            return now + 1_000
        }
        workers[number] = thread
        workersIdle += 1
        startWaitsSince = now
        return now + Self.patience
    }

    private func runWorker(_ number: Int) {
        lock.lock()
        workersIdle -= 1
        while phase != .closed {
            guard phase == .open, hasStart else {
                guard awaitWork() else { break }
                continue
            }
            guard var work = startNext() else {
                // What came instead of a start (a drain's end, an expiry, a pause) has consequences, too.
                settle()
                continue
            }
            workersCalling += 1
            while true {
                // There may be more to start side by side.
                settle()
                guard let next = call(work) else { break }
                work = next
            }
            workersCalling -= 1
            settle()
        }
        // At the end of a queue the one who closes it waits for this thread.
        if phase == .open { workers.removeValue(forKey: number)?.detach() }
        lock.unlock()
    }

    /// False: nothing came for so long that this thread is not needed.
    private func awaitWork() -> Bool {
        workersIdle += 1
        defer { workersIdle -= 1 }
        guard workers.count > 1 else {
            workCondition.wait(lock)
            return true
        }
        let isInTime = workCondition.wait(lock, until: ports.mono().addingClamped(Self.idleTime))
        return isInTime || hasStart || phase != .open || workers.count == 1
    }
}
