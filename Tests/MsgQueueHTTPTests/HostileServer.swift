import Foundation
import Glibc

/// An HTTP server on 127.0.0.1 that ends connections at any stage. Each connection has a thread.
final class HostileServer: @unchecked Sendable {
    /// A request, as far as the server read it.
    struct Request: Sendable {
        var line = ""
        /// Names in lower case.
        var headers: [String: String] = [:]
        var body: [UInt8] = []
        /// The number of bytes of the body that the header promises.
        var length = 0
        /// Counted from 0, over all connections.
        var number = 0

        var text: String { String(decoding: body, as: UTF8.self) }
        var key: String { headers["idempotency-key"] ?? "" }
    }

    /// What the server does with a connection when a request begins, before it reads all of it.
    enum Reading: Sendable {
        case whole
        /// Reads only this many bytes and ends the connection.
        case part(Int, Ending)
    }

    enum Ending: Sendable {
        /// Reads the next request.
        case keep
        case close
        /// Ends the connection with a reset.
        case reset
        /// Leaves the connection open, unused, until the server stops.
        case hang
    }

    struct Answer: Sendable {
        var bytes: [UInt8]
        var ending = Ending.keep
        var delay = 0.0

        init(bytes: [UInt8], ending: Ending) { (self.bytes, self.ending) = (bytes, ending) }

        init(raw: String, _ ending: Ending = .close) { self.init(bytes: Array(raw.utf8), ending: ending) }

        /// An answer with a status; a server that keeps connections open.
        init(_ status: Int, _ headers: [String: String] = [:], body: String = "", delay: Double = 0) {
            let lines = headers.map { "\($0.key): \($0.value)\r\n" }.joined()
            bytes = Array("HTTP/1.1 \(status) Status\r\n\(lines)Content-Length: \(body.utf8.count)\r\n\r\n\(body)".utf8)
            self.delay = delay
        }
    }

    let port: Int
    private let listener: Int32
    private let reading: @Sendable (Int) -> Reading
    private let answering: @Sendable (Request) -> Answer
    private let lock = NSLock()
    private var open: Set<Int32> = []
    private var isStopped = false
    private var begun = 0
    private var whole: [Request] = []
    private var cut: [Request] = []
    private var accepted = 0
    private var busy = 0
    private var most = 0

    /// `reading` decides by the number of the request, `answering` by the request that was read.
    init(
        reading: @escaping @Sendable (Int) -> Reading = { _ in .whole }, answering: @escaping @Sendable (Request) -> Answer
    ) throws {
        (self.reading, self.answering) = (reading, answering)
        listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
        port = try Self.bind(listener)
        guard listen(listener, 1_024) == 0 else { throw POSIXError(.EADDRINUSE) }
        Thread.detachNewThread { [self] in accept() }
    }

    /// Binds a socket to a free port of 127.0.0.1 and returns the port.
    static func bind(_ descriptor: Int32) throws -> Int {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = inet_addr("127.0.0.1")
        var size = socklen_t(MemoryLayout<sockaddr_in>.size)
        let result = withUnsafeMutablePointer(to: &address) {
            $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                Glibc.bind(descriptor, pointer, size) == 0 && getsockname(descriptor, pointer, &size) == 0
            }
        }
        guard result else { throw POSIXError(.EADDRNOTAVAIL) }
        return Int(UInt16(bigEndian: address.sin_port))
    }

    var url: String { "http://127.0.0.1:\(port)/in?a=b" }
    /// The requests that were read to their end.
    var requests: [Request] { lock.withLock { whole } }
    /// The requests whose header was whole, but not their body, although the server waited for it.
    var truncated: [Request] { lock.withLock { cut } }
    var connections: Int { lock.withLock { accepted } }
    /// The most requests that were served at a time.
    var mostAtOnce: Int { lock.withLock { most } }
    /// Connections that are open now.
    var openConnections: Int { lock.withLock { open.count } }

    func stop() {
        lock.withLock {
            isStopped = true
            for peer in open { shutdown(peer, Int32(SHUT_RDWR)) }
            shutdown(listener, Int32(SHUT_RDWR))
        }
    }

    private func accept() {
        while true {
            let peer = Glibc.accept(listener, nil, nil)
            guard peer >= 0 else {
                if errno == EINTR || errno == ECONNABORTED { continue }
                break
            }
            let isStopped = lock.withLock {
                open.insert(peer)
                accepted += 1
                return self.isStopped
            }
            guard !isStopped else {
                release(peer)
                break
            }
            Thread.detachNewThread { [self] in
                serve(peer)
                release(peer)
            }
        }
        close(listener)
    }

    private func release(_ peer: Int32) {
        lock.withLock { _ = open.remove(peer) }
        close(peer)
    }

    private func serve(_ peer: Int32) {
        var rest: [UInt8] = []
        while true {
            guard !rest.isEmpty || receive(peer, into: &rest) else { return }
            let number = lock.withLock {
                defer { begun += 1 }
                return begun
            }
            if case .part(let count, let ending) = reading(number) {
                // The request may be shorter.
                var patience = timeval(tv_sec: 0, tv_usec: 100_000)
                setsockopt(peer, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
                while rest.count < count, receive(peer, into: &rest) {}
                finish(peer, ending)
                return
            }
            guard var request = readRequest(peer, &rest) else { return }
            request.number = number
            lock.withLock {
                whole.append(request)
                busy += 1
                most = max(most, busy)
            }
            let answer = answering(request)
            if answer.delay > 0 { usleep(useconds_t(answer.delay * 1_000_000)) }
            lock.withLock { busy -= 1 }
            send(peer, answer.bytes)
            if case .keep = answer.ending { continue }
            finish(peer, answer.ending)
            return
        }
    }

    private func finish(_ peer: Int32, _ ending: Ending) {
        switch ending {
        case .keep, .close: break
        case .reset:
            var option = linger(l_onoff: 1, l_linger: 0)
            setsockopt(peer, SOL_SOCKET, SO_LINGER, &option, socklen_t(MemoryLayout<linger>.size))
        case .hang:
            var ignored: [UInt8] = []
            while receive(peer, into: &ignored) { ignored = [] }
        }
    }

    /// Reads a request. Returns nil at the end of the connection.
    private func readRequest(_ peer: Int32, _ rest: inout [UInt8]) -> Request? {
        let end = Array("\r\n\r\n".utf8)
        var head = rest.firstRange(of: end)
        while head == nil {
            guard receive(peer, into: &rest) else { return nil }
            head = rest.firstRange(of: end)
        }
        guard let head else { return nil }
        var request = Request()
        let lines = String(decoding: rest[..<head.lowerBound], as: UTF8.self).components(separatedBy: "\r\n")
        request.line = lines.first ?? ""
        for line in lines.dropFirst() {
            let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2 else { continue }
            request.headers[parts[0].lowercased()] = parts[1].trimmingCharacters(in: .whitespaces)
        }
        request.length = Int(request.headers["content-length"] ?? "") ?? 0
        rest.removeSubrange(..<head.upperBound)
        // A client that sends nothing more will not send the body.
        var patience = timeval(tv_sec: 2, tv_usec: 0)
        setsockopt(peer, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        while rest.count < request.length {
            guard receive(peer, into: &rest) else {
                request.body = rest
                lock.withLock { cut.append(request) }
                return nil
            }
        }
        patience.tv_sec = 0
        setsockopt(peer, SOL_SOCKET, SO_RCVTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        request.body = Array(rest.prefix(request.length))
        rest.removeFirst(request.length)
        return request
    }

    private func receive(_ peer: Int32, into bytes: inout [UInt8]) -> Bool {
        var buffer = [UInt8](repeating: 0, count: 65_536)
        while true {
            let count = recv(peer, &buffer, buffer.count, 0)
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return false }
            bytes += buffer.prefix(count)
            return true
        }
    }

    private func send(_ peer: Int32, _ bytes: [UInt8]) {
        var sent = 0
        while sent < bytes.count {
            let count = bytes.withUnsafeBytes {
                Glibc.send(peer, $0.baseAddress.map { $0 + sent }, bytes.count - sent, Int32(MSG_NOSIGNAL))
            }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return }
            sent += count
        }
    }
}
