/// The control socket of a queue: the socket file and the thread that serves it.
final class ControlServer: EngineService, @unchecked Sendable {
    private let address: ControlAddress
    private let mailbox: ControlMailbox
    private let thread: EngineThread

    init(_ engine: Engine, path: String, _ limits: ControlLimits) throws(QueueError) {
        let mailbox = try ControlMailbox()
        let address = try ControlAddress(path)
        let loop = ControlLoop(engine, address, mailbox, limits)
        guard let thread = EngineThread("msgq-control", { loop.run() }) else {
            address.remove()
            throw QueueError(.storage, "failed to create a thread")
        }
        (self.mailbox, self.address, self.thread) = (mailbox, address, thread)
    }

    /// Removes the socket file, answers what has ended, and disconnects the clients.
    func stop() {
        address.remove()
        mailbox.stop()
        thread.join()
    }
}

extension Engine {
    /// Serves requests on a Unix socket, until `stopControl` or the close. `path`: nil for the store's path with `-control` appended.
    package func startControl(path: String?, limits: ControlLimits = ControlLimits()) throws(QueueError) {
        try context.checkProcess()
        try attachment.attach { () throws(QueueError) in
            // Beside a store that is only read no file is made unless its place is named.
            if path == nil { try checkOpenForWriting() } else { try checkOpen() }
            return try ControlServer(self, path: path ?? context.store.path + ControlAddress.suffix, limits)
        }
    }

    /// Ends the control socket. Does nothing if there is none.
    package func stopControl() throws(QueueError) {
        try context.checkProcess()
        try checkOpen()
        attachment.close()
    }
}
