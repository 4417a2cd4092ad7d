import CPlatform
import Glibc

/// The descriptor that the event loop of a host watches: an eventfd, or in a queue without threads an epoll of it and of an alarm.
struct PollDescriptor {
    /// Readable while there is a callback to run; -1: there is none, in virtual time.
    private let ready: Int32
    /// What the host waits for.
    let shown: Int32

    /// `alarm`: of a queue without threads.
    init(_ ports: Ports, sharing alarm: Alarm?) throws(QueueError) {
        guard ports.hasDescriptors else {
            (ready, shown) = (-1, -1)
            return
        }
        ready = platform_eventfd()
        guard ready >= 0 else { throw QueueError(.storage, "failed to create an eventfd: \(Posix.lastError())") }
        guard let alarm else {
            shown = ready
            return
        }
        shown = platform_epoll()
        guard shown >= 0, platform_epoll_add(shown, ready) == 0 else {
            let reason = Posix.lastError()
            close()
            throw QueueError(.storage, "failed to create an epoll: \(reason)")
        }
        do throws(QueueError) { try alarm.share(with: shown) } catch {
            close()
            throw error
        }
    }

    /// Makes it readable, or not any more. It must have been the other before.
    func show(_ isReadable: Bool) {
        guard ready >= 0 else { return }
        var value: UInt64 = 1
        // The counter is 0 or 1, so neither call can block or overflow.
        _ = isReadable ? write(ready, &value, 8) : read(ready, &value, 8)
    }

    func close() {
        if shown != ready, shown >= 0 {
            platform_epoll_remove(shown, ready)
            Glibc.close(shown)
        }
        if ready >= 0 { Glibc.close(ready) }
    }
}

/// The descriptors of an engine.
struct EngineDescriptors {
    let alarm: Alarm
    /// nil: the queue is not polled.
    let poll: PollDescriptor?

    private init(_ callbacks: Callbacks, _ ports: Ports) throws(QueueError) {
        let alarm = try Alarm(ports)
        do throws(QueueError) {
            poll = callbacks == .threads ? nil : try PollDescriptor(ports, sharing: callbacks == .poll ? alarm : nil)
        } catch {
            alarm.close()
            throw error
        }
        self.alarm = alarm
    }

    /// Creates them, and then opens the store: an open that fails for lack of descriptors changes no file.
    static func before<Store>(
        _ callbacks: Callbacks, _ ports: Ports, _ open: () throws(QueueError) -> Store
    ) throws(QueueError) -> (EngineDescriptors, Store) {
        let descriptors = try EngineDescriptors(callbacks, ports)
        do throws(QueueError) { return (descriptors, try open()) } catch {
            descriptors.poll?.close()
            descriptors.alarm.close()
            throw error
        }
    }
}
