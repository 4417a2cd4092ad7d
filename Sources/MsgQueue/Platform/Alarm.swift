import CPlatform
import Glibc

/// What the timer thread sleeps on: the next deadline, a wall clock that was set, a word of another thread, and the kernel's about
/// the network. Arming the alarm wakes nobody.
final class Alarm: @unchecked Sendable {
    /// What ended a sleep.
    struct Reason: OptionSet {
        let rawValue: Int
        static let deadline = Reason(rawValue: 1)
        static let clockSet = Reason(rawValue: 2)
        static let network = Reason(rawValue: 4)
    }

    /// By the clock that also counts while the machine sleeps, so that what is due after a night is done in the morning.
    private let timer: Int32
    /// Never rings; readable once somebody sets the wall clock, or the machine wakes up.
    private let clock: Int32
    private let wake: Int32

    init() throws(QueueError) {
        timer = platform_timer(CLOCK_BOOTTIME)
        clock = platform_timer(CLOCK_REALTIME)
        wake = platform_eventfd()
        guard timer >= 0, clock >= 0, wake >= 0 else {
            let reason = Posix.lastError()
            close()
            throw QueueError(.storage, "no file descriptor left: \(reason)")
        }
        platform_watch_clock(clock)
    }

    /// `deadline` is by `Ports.mono`, in milliseconds; Int64.max: never.
    func arm(_ deadline: Int64) {
        // The kernel counts nanoseconds.
        platform_arm_timer(timer, deadline < Int64.max / 2 ? max(deadline, 0) : -1)
    }

    /// Ends a sleep, or the next one.
    func ring() {
        var one: UInt64 = 1
        // It cannot fail for want of room: nobody rings 2^64 times.
        _ = write(wake, &one, 8)
    }

    /// Sleeps until something happens.
    func sleep(network: Int32?) -> Reason {
        var watched = [timer, clock, wake, network ?? -1].map { pollfd(fd: $0, events: Int16(POLLIN), revents: 0) }
        // An interrupted or failed wait is a wake-up without a reason; whoever sleeps looks around and sleeps again.
        guard poll(&watched, nfds_t(watched.count), -1) > 0 else { return [] }
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

    /// Only when nobody sleeps any more.
    func close() {
        for descriptor in [timer, clock, wake] where descriptor >= 0 { _ = Glibc.close(descriptor) }
    }
}
