import CPlatform
import Glibc

/// A thread of the library: joinable, with all signals blocked, so that the host's signal handlers run on the host's threads.
package final class EngineThread {
    private var handle: pthread_t

    /// nil: the system cannot create another thread.
    package init?(_ name: String, _ body: @escaping @Sendable () -> Void) {
        let start = Unmanaged.passRetained(Start(name: name, body: body))
        var all = sigset_t()
        var before = sigset_t()
        sigfillset(&all)
        pthread_sigmask(SIG_SETMASK, &all, &before)
        defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
        var handle = pthread_t()
        let code = pthread_create(
            &handle, nil,
            { argument in
                guard let argument else { return nil }
                let start = Unmanaged<Start>.fromOpaque(argument).takeRetainedValue()
                platform_name_this_thread(start.name)
                start.body()
                return nil
            }, start.toOpaque())
        guard code == 0 else {
            start.release()
            return nil
        }
        self.handle = handle
    }

    package func join() { pthread_join(handle, nil) }

    /// Detaches the thread instead of joining it, because a callback of the host may never return.
    package func detach() { pthread_detach(handle) }

    private final class Start: Sendable {
        let name: String
        let body: @Sendable () -> Void

        init(name: String, body: @escaping @Sendable () -> Void) {
            self.name = name
            self.body = body
        }
    }
}
