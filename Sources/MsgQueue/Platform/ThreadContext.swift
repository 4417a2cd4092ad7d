import Glibc

/// What belongs to a thread: in whose callbacks it is right now, and what its last failed call said.
package final class ThreadContext {
    /// The owners whose callbacks this thread is in, innermost last.
    private var callbacks: [ObjectIdentifier] = []
    /// For `msgq_error_detail`; a C string that stays where it is until the next failure.
    package var detail: UnsafeMutablePointer<CChar>?
    /// This thread is inside the host's log function.
    var isInLogSink = false

    deinit { free(detail) }

    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        let code = pthread_key_create(&key) { context in
            guard let context else { return }
            Unmanaged<ThreadContext>.fromOpaque(context).release()
        }
        precondition(code == 0, "no thread-specific key left")
        return key
    }()

    /// Makes the key, before there are threads that could want it at one time. (Swift's runtime locks what is made at first use by the
    /// number of the thread, which it keeps: in a forked child that is the parent's, and a second thread would wait for ever.)
    static func prepare() { _ = current }

    package static var current: ThreadContext {
        if let context = pthread_getspecific(key) {
            return Unmanaged<ThreadContext>.fromOpaque(context).takeUnretainedValue()
        }
        let context = ThreadContext()
        pthread_setspecific(key, Unmanaged.passRetained(context).toOpaque())
        return context
    }

    func isInCallback(of owner: AnyObject) -> Bool { callbacks.contains(ObjectIdentifier(owner)) }

    func inCallback<T>(of owner: AnyObject, _ body: () -> T) -> T {
        callbacks.append(ObjectIdentifier(owner))
        defer { callbacks.removeLast() }
        return body()
    }
}
