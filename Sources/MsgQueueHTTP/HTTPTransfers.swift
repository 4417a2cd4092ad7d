internal import CCurl
import MsgQueue

/// The requests of a transport, and the thread that makes them all. The thread begins with the first request and ends with the transport.
final class HTTPTransfers: Sendable {
    /// What the thread shares with other threads. The thread keeps only this, so that the transport can be deallocated meanwhile.
    private final class Shared: @unchecked Sendable {
        let lock = Mutex()
        /// Protected by the lock.
        var (begun, cancelled): ([HTTPTransfer], [HTTPTransfer]) = ([], [])
        var isEnded = false
        var thread = Thread.none
        let multi: UnsafeMutableRawPointer?

        init() {
            // Once for the process, before any other call of libcurl.
            _ = Self.library
            multi = curl_multi_init()
        }

        deinit { if let multi { curl_multi_cleanup(multi) } }

        private static let library = curl_global_init(Int(CURL_GLOBAL_ALL))
    }

    private enum Thread { case none, runs }

    private let shared = Shared()

    deinit {
        let hasThread = shared.lock.withLock {
            shared.isEnded = true
            return shared.thread == .runs
        }
        if hasThread { curl_multi_wakeup(shared.multi) }
    }

    /// Makes a request and waits for its end.
    func run(_ transfer: HTTPTransfer) async -> HTTPResult {
        guard begin(transfer) else {
            transfer.finish(CURLE_OUT_OF_MEMORY, isSent: false)
            return await transfer.done.wait()
        }
        return await withTaskCancellationHandler {
            await transfer.done.wait()
        } onCancel: {
            shared.lock.withLock { shared.cancelled.append(transfer) }
            curl_multi_wakeup(shared.multi)
        }
    }

    /// Returns false if there is no thread and none can be created.
    private func begin(_ transfer: HTTPTransfer) -> Bool {
        guard shared.multi != nil else { return false }
        let hasThread = shared.lock.withLock {
            if shared.thread == .none {
                guard let thread = EngineThread("msgq-http", { [shared] in Self.serve(shared) }) else { return false }
                thread.detach()
                shared.thread = .runs
            }
            shared.begun.append(transfer)
            return true
        }
        if hasThread { curl_multi_wakeup(shared.multi) }
        return hasThread
    }

    // MARK: The thread

    private static func serve(_ shared: Shared) {
        var running: [UnsafeMutableRawPointer: HTTPTransfer] = [:]
        while true {
            let (begun, cancelled, isEnded) = shared.lock.withLock {
                defer { (shared.begun, shared.cancelled) = ([], []) }
                return (shared.begun, shared.cancelled, shared.isEnded)
            }
            for transfer in begun where transfer.prepare() {
                guard let handle = transfer.handle, curl_multi_add_handle(shared.multi, handle) == CURLM_OK else {
                    transfer.finish(CURLE_OUT_OF_MEMORY, isSent: false)
                    continue
                }
                running[handle] = transfer
            }
            for transfer in isEnded ? Array(running.values) : cancelled {
                guard let handle = transfer.handle, running.removeValue(forKey: handle) != nil else { continue }
                transfer.finish(nil)
                curl_multi_remove_handle(shared.multi, handle)
            }
            if isEnded { return }
            var count: Int32 = 0
            if curl_multi_perform(shared.multi, &count) != CURLM_OK {
                for (handle, transfer) in running {
                    transfer.finish(CURLE_OUT_OF_MEMORY)
                    curl_multi_remove_handle(shared.multi, handle)
                }
                running = [:]
            }
            var code = CURLE_OK
            while let handle = ccurl_next_ended(shared.multi, &code) {
                curl_multi_remove_handle(shared.multi, handle)
                running.removeValue(forKey: handle)?.finish(code)
            }
            // A request, a cancellation and the end wake it up.
            curl_multi_poll(shared.multi, nil, 0, 60_000, nil)
        }
    }
}
