/// Something that uses the engine from outside, with threads of its own, and ends with it.
protocol EngineService: AnyObject, Sendable {
    /// Ends its threads. No function of it runs when this returns.
    func stop()
}

/// The service that is attached to an engine. Its mutex is taken before the engine's lock.
final class Attachment: @unchecked Sendable {
    private let mutex = Mutex()
    private var service: (any EngineService)?

    /// Starts the service by `make`. Throws `conflict` when there is one.
    func attach(_ make: () throws(QueueError) -> any EngineService) throws(QueueError) {
        try mutex.withLock { () throws(QueueError) in
            guard service == nil else { throw QueueError(.conflict, "the control socket is started already") }
            service = try make()
        }
    }

    /// Stops the service, if there is one.
    func close() {
        mutex.withLock {
            service?.stop()
            service = nil
        }
    }
}

/// What a service needs of the engine beside the calls of callers.
extension Engine {
    func checkOpen() throws(QueueError) { try reading { () throws(QueueError) in } }

    func checkOpenForWriting() throws(QueueError) { try reading { () throws(QueueError) in try context.checkWritable() } }

    /// Sets what receives the events beside the handler.
    func setObserver(_ observer: (any EventObserver)?) { context.lock.withLock { events.observer = observer } }
}
