import Glibc

/// Reads of a whole store while its queue is in use, in small steps between which other calls have their turns.
package struct LongReads {
    private let engine: Engine

    package init(_ engine: Engine) { self.engine = engine }

    /// Reads every message and compares it with its checksum, and compares what is derived from them. Throws `closed` when `isCancelled` returns true.
    func check(isCancelled: () -> Bool) throws(QueueError) -> CheckReport {
        try engine.reading { () throws(QueueError) in try engine.context.store.checks.request() }
        defer { engine.context.lock.withLock { engine.context.store.checks.endRequest() } }
        while true {
            guard !isCancelled() else { throw QueueError(.closed, "the check was cancelled") }
            if let report = try engine.reading({ () throws(QueueError) in try engine.context.store.checks.requestedStep() }) {
                return report
            }
            // Let threads that wait for the lock run first.
            usleep(500)
        }
    }

    /// Copies the store in small steps and releases the lock between them, so that other calls wait for one step at most. Throws `closed`
    /// when `isCancelled` returns true.
    package func backup(to path: String, isCancelled: () -> Bool = { false }) throws(QueueError) {
        let copy = try engine.input { () throws(QueueError) in try engine.backups.begin(to: path) }
        do throws(QueueError) {
            while try engine.input({ () throws(QueueError) in try engine.backups.takeStep(of: copy) }) {
                guard !isCancelled() else { throw QueueError(.closed, "the copy was cancelled") }
                try copy.flushPart()
                // Let threads that wait for the lock run first.
                usleep(100)
            }
            try copy.finish()
        } catch {
            engine.context.lock.withLock { engine.backups.abandon(copy) }
            throw error
        }
    }
}
