import CPlatform
import Glibc

/// The wait for what is due at a time. It ends at the next deadline, when the wall clock is set, when another thread signals it, or when
/// the kernel reports a change of the network. Setting the deadline does not end it.
final class Alarm: @unchecked Sendable {
    /// The reason why a wait ended.
    struct Reason: OptionSet {
        let rawValue: Int
        static let deadline = Reason(rawValue: 1)
        static let clockSet = Reason(rawValue: 2)
        static let network = Reason(rawValue: 4)
    }

    /// Uses the clock that includes the time in system suspend, so that deadlines which pass meanwhile are due on resume.
    private let timer: Int32
    /// Never expires. Becomes readable when the wall clock is set, or when the system resumes.
    private let clock: Int32
    private let wake: Int32
    /// An epoll of the host that has the same descriptors; -1: none.
    private var shared: Int32 = -1
    /// A clock of the queue's own, which a wait moves to its end; nil: the system's.
    private let simulated: SimulatedClock?
    /// The deadline by that clock.
    private var deadline = Int64.max

    init(_ ports: Ports) throws(QueueError) {
        simulated = ports.simulated
        guard ports.hasDescriptors else {
            (timer, clock, wake) = (-1, -1, -1)
            return
        }
        timer = platform_timer(CLOCK_BOOTTIME)
        clock = platform_timer(CLOCK_REALTIME)
        wake = platform_eventfd()
        guard timer >= 0, clock >= 0, wake >= 0 else {
            let reason = Posix.lastError()
            close()
            throw QueueError(.storage, "cannot create a timer or an event descriptor: \(reason)")
        }
        platform_watch_clock(clock)
    }

    /// Sets the deadline, in milliseconds of `Ports.mono`; Int64.max: never.
    func arm(_ deadline: Int64) {
        guard simulated == nil else { return self.deadline = deadline }
        // The kernel converts the time to nanoseconds: a deadline that is too large disarms the timer.
        platform_arm_timer(timer, deadline < Int64.max / 2 ? max(deadline, 0) : -1)
    }

    /// Ends the current wait, or the next one.
    func signal() {
        var one: UInt64 = 1
        // The counter cannot overflow.
        _ = write(wake, &one, 8)
    }

    /// Waits until something happens, at most `longest` milliseconds (nil: without end). Returns an empty set after `signal` or that time.
    func sleep(network: Int32?, longest: Int64? = nil) -> Reason {
        if let simulated {
            let end = min(deadline, longest.map { simulated.now.mono.addingClamped(max($0, 0)) } ?? Int64.max)
            if end < Int64.max {
                simulated.move(to: end)
                return end == deadline ? .deadline : []
            }
        }
        var watched = [timer, clock, wake, network ?? -1].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
        let timeout = longest.map { Int32(clamping: max($0, 0)) } ?? -1
        // An interrupted or failed wait counts as a wake-up without a reason: the caller checks its state and waits again.
        guard poll(&watched, nfds_t(watched.count), timeout) > 0 else { return [] }
        var reason: Reason = []
        var count: UInt64 = 0
        if watched[0].revents != 0 {
            _ = read(timer, &count, 8)
            reason.insert(.deadline)
        }
        if watched[1].revents != 0 {
            _ = read(clock, &count, 8)
            platform_watch_clock(clock)
            reason.insert(.clockSet)
        }
        if watched[2].revents != 0 { _ = read(wake, &count, 8) }
        if watched[3].revents != 0 { reason.insert(.network) }
        return reason
    }

    // MARK: The host's wait

    /// Adds what ends the wait, except for `signal`, to an epoll on which the host waits.
    func share(with epoll: Int32) throws(QueueError) {
        shared = epoll
        do throws(QueueError) {
            try watch(timer)
            try watch(clock)
        } catch {
            shared = -1
            throw error
        }
    }

    /// Adds the descriptor of the network to the host's epoll.
    func watch(_ descriptor: Int32) throws(QueueError) {
        guard shared >= 0, platform_epoll_add(shared, descriptor) != 0 else { return }
        throw QueueError(.storage, "failed to add a descriptor to an epoll: \(Posix.lastError())")
    }

    func unwatch(_ descriptor: Int32) { if shared >= 0 { platform_epoll_remove(shared, descriptor) } }

    /// Closes the descriptors. No thread may be waiting.
    func close() {
        for descriptor in [timer, clock] where descriptor >= 0 { unwatch(descriptor) }
        for descriptor in [timer, clock, wake] where descriptor >= 0 { _ = Glibc.close(descriptor) }
    }
}
