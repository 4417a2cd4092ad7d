import CPlatform
import Glibc

/// What other threads give to the thread of the control socket: answers of calls that took longer, and events. Its mutex is taken after the
/// engine's lock.
final class ControlMailbox: EventObserver, @unchecked Sendable {
    struct Answer {
        /// The number of the client.
        let client: Int
        let line: [UInt8]
        /// The number of the job that ended with this answer; nil: none.
        let job: Int?
    }

    struct Contents {
        var answers: [Answer] = []
        var events: [(event: Event, at: Int64)] = []
        var isSummaryDue = false
        var isStopped = false
    }

    /// The number of events that are kept. If there are more, they are replaced by one `resync` event.
    private static let ceiling = 10_000
    /// The number of events with which the thread is woken, although it is patient.
    private static let many = 1_000

    private let mutex = Mutex()
    private let wake: ControlDescriptor
    private var contents = Contents()
    private var isSignalled = false
    private var isClosed = false
    /// Events do not wake the thread: it takes them when their time has come.
    private var isPatient = false

    init() throws(QueueError) {
        guard let wake = ControlDescriptor({ platform_eventfd() }) else { throw Posix.error(errno, "cannot create an event descriptor") }
        self.wake = wake
    }

    /// Becomes readable when there is something.
    var descriptor: Int32 { wake.number }

    func receive(_ event: Event, at: Int64) {
        add(isEvent: true) { contents in
            if contents.events.count >= Self.ceiling {
                let lost = contents.events.reduce(event.weight) { $0.addingClamped($1.event.weight) }
                contents.events = [(.resync(lostEvents: lost), at)]
                contents.isSummaryDue = true
            } else {
                contents.events.append((event, at))
            }
        }
    }

    func countsChanged() { add(isEvent: true) { $0.isSummaryDue = true } }

    /// Sets whether events wake the thread.
    func setPatient(_ isPatient: Bool) {
        mutex.withLock {
            guard self.isPatient != isPatient else { return }
            self.isPatient = isPatient
            if !isPatient, !isClosed, !contents.events.isEmpty || contents.isSummaryDue { signal() }
        }
    }

    func answer(_ answer: Answer) { add { $0.answers.append(answer) } }

    /// Ends the thread.
    func stop() { add { $0.isStopped = true } }

    private func add(isEvent: Bool = false, _ change: (inout Contents) -> Void) {
        mutex.withLock {
            guard !isClosed else { return }
            change(&contents)
            if !isEvent || !isPatient || contents.events.count >= Self.many { signal() }
        }
    }

    private func signal() {
        guard !isSignalled else { return }
        isSignalled = true
        var one: UInt64 = 1
        _ = write(wake.number, &one, 8)
    }

    /// Whether the thread was told to end, for jobs.
    var isStopped: Bool { mutex.withLock { contents.isStopped || isClosed } }

    /// Removes and returns everything.
    func take() -> Contents {
        mutex.withLock {
            if isSignalled {
                var count: UInt64 = 0
                _ = read(wake.number, &count, 8)
                isSignalled = false
            }
            defer {
                let isStopped = contents.isStopped
                contents = Contents()
                contents.isStopped = isStopped
            }
            return contents
        }
    }

    /// From now on everything is ignored.
    func close() { mutex.withLock { isClosed = true } }
}
