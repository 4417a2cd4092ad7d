/// Who says how the network is: the host, or the kernel.
extension Engine {
    /// The kernel's word from now on, and as it is now. A second time changes nothing.
    package func startMonitor() throws(QueueError) {
        guard try locked({ () throws(QueueError) in monitor == nil }) else { return }
        let new = try NetworkMonitor()
        let network = try new.ask()
        try locked { () throws(QueueError) in
            guard monitor == nil else { return }
            monitor = new
            learned(network)
            // The timer thread sleeps without it.
            alarm.ring()
        }
    }

    /// What was said last stays true until the host says something else.
    package func stopMonitor() throws(QueueError) {
        try locked { () throws(QueueError) in
            // The timer thread may sleep on its descriptor, and keeps it until then.
            monitor = nil
            alarm.ring()
        }
    }

    /// The kernel did not answer the last time, and has had its time. On the timer's thread, which alone asks.
    func isMonitorDue(_ monitor: NetworkMonitor?) -> Bool {
        guard let monitor, monitor.isStale else { return false }
        return lock.withLock { ports.mono() >= monitorDeadline }
    }

    /// When to ask again, if the last question was not answered: at growing distances.
    func planMonitor() {
        guard let monitor, monitor.isStale else {
            (monitorDeadline, monitorDelay) = (Int64.max, 0)
            return
        }
        let now = ports.mono()
        guard monitorDeadline == Int64.max || now >= monitorDeadline else { return }
        monitorDelay = min(max(monitorDelay * 2, 250), 8_000)
        monitorDeadline = now + monitorDelay
    }

    package func setNetwork(_ network: Network) throws(QueueError) {
        try locked { () throws(QueueError) in
            guard monitor == nil else { throw QueueError(.conflict, "the kernel is asked already: stop the monitor first") }
            learned(network)
        }
    }

    func learned(_ network: Network) {
        guard network != core.scheduler.network else { return }
        core.scheduler.networkChanged(network, ports.moment)
        emit(.connectivity(network))
        countsChanged()
    }
}
