import Glibc

@testable import MsgQueue

/// A client of a control socket, for tests. Calls block, at most for 30 seconds.
final class ControlPeer {
    private struct Failure: Error, CustomStringConvertible { let description: String }

    private(set) var descriptor: Int32
    private var buffer: [UInt8] = []
    private var requests: Int64 = 0
    /// Events that arrived before an answer.
    private(set) var events: [JSONValue] = []
    private(set) var greeting: JSONValue = .null

    /// Connects. `greeted`: reads the greeting.
    init(_ path: String, greeted: Bool = true) throws {
        descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
        // A path that is too long for an address is reached through a descriptor (O_PATH, which the module lacks).
        let opened = open(path, 0o10000000 | O_CLOEXEC)
        defer { close(opened) }
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let text = Array(path.utf8).count > 107 ? "/proc/self/fd/\(opened)" : path
        withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: text.utf8) }
        let code = withUnsafePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size)) }
        }
        guard code == 0 else {
            let error = errno
            Glibc.close(descriptor)
            descriptor = -1
            throw Failure(description: "connect: errno \(error)")
        }
        var limit = timeval(tv_sec: 30, tv_usec: 0)
        setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
        if greeted { greeting = try readLine() ?? .null }
    }

    deinit { end() }

    func end() {
        if descriptor >= 0 { Glibc.close(descriptor) }
        descriptor = -1
    }

    /// Writes bytes. Returns false if the server has disconnected.
    @discardableResult
    func write(_ bytes: [UInt8]) -> Bool {
        var sent = 0
        while sent < bytes.count {
            let count = bytes[sent...].withUnsafeBytes { send(descriptor, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { return false }
            sent += count
        }
        return true
    }

    @discardableResult
    func write(_ text: String) -> Bool { write(Array(text.utf8)) }

    func write(_ value: JSONValue) { write(JSONWriter.line(value)) }

    /// Reads the next line; nil: the server has disconnected.
    func readLine() throws -> JSONValue? {
        while true {
            if let end = buffer.firstIndex(of: 0x0a) {
                defer { buffer.removeSubrange(...end) }
                return try JSONParser.parse(Array(buffer[..<end]))
            }
            var chunk = [UInt8](repeating: 0, count: 65_536)
            let count = recv(descriptor, &chunk, chunk.count, 0)
            if count == 0 || (count < 0 && errno == ECONNRESET) { return nil }
            guard count > 0 else { throw Failure(description: "recv: errno \(errno)") }
            buffer += chunk[..<count]
        }
    }

    /// Sends a request and returns its answer as a whole. Keeps events that arrive before it.
    func answer(_ call: String, _ fields: JSONValue = [:]) throws -> JSONValue {
        requests += 1
        let id = JSONValue.integer(requests)
        write(.object([JSONValue.Member("id", id), JSONValue.Member("call", .string(call))] + (fields.members ?? [])))
        while let line = try readLine() {
            guard line["event"] == nil else {
                events.append(line)
                continue
            }
            guard line["id"] == id else { throw Failure(description: "an answer to \(id): \(line)") }
            return line
        }
        throw Failure(description: "disconnected")
    }

    /// Sends a request and returns its result.
    func call(_ call: String, _ fields: JSONValue = [:]) throws -> JSONValue {
        let answer = try answer(call, fields)
        guard let result = answer["result"] else { throw Failure(description: "\(call): \(answer)") }
        return result
    }

    /// Sends a request and returns the code of its error.
    func refusal(_ call: String, _ fields: JSONValue = [:]) throws -> String? { try answer(call, fields)["error"]?["code"]?.string }

    /// Removes and returns the first event that arrived before an answer.
    func nextEvent() -> JSONValue? { events.isEmpty ? nil : events.removeFirst() }

    /// Reads events until one fits, and returns it.
    func event(_ name: String, where fits: (JSONValue) -> Bool = { _ in true }) throws -> JSONValue {
        while true {
            if let index = events.firstIndex(where: { $0["event"] == .string(name) && fits($0) }) { return events.remove(at: index) }
            guard let line = try readLine() else { throw Failure(description: "disconnected before the event \(name)") }
            events.append(line)
        }
    }
}
