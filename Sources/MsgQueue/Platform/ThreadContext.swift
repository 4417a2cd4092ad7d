import Glibc

/// The state of a thread: the owners of the callbacks that it is running, and the detail of its last error.
package final class ThreadContext {
    /// The owners of the callbacks that this thread is running, innermost last.
    private var callbacks: [ObjectIdentifier] = []
    /// The C string for `msgq_error_detail`, valid until the next error of this thread.
    package var detail: UnsafeMutablePointer<CChar>?
    /// The thread is running the host's log function.
    var isInLogSink = false

    deinit { free(detail) }

    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        let code = pthread_key_create(&key) { context in
            guard let context else { return }
            Unmanaged<ThreadContext>.fromOpaque(context).release()
        }
        precondition(code == 0, "pthread_key_create failed")
        return key
    }()

    /// Creates the key before several threads can use it. (The Swift runtime protects lazy initialisation with a lock that stores the id of
    /// the thread. In a forked child the stored id is the parent's, and a second thread would deadlock.)
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
