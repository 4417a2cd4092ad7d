import Foundation
import Glibc
import MsgQueue
import MsgQueueHTTP
import Testing

/// Failures of the connection: what was surely not sent, and what perhaps was.
@Suite struct ConnectionTests {
    /// A port of 127.0.0.1 on which nobody listens, as long as the socket is open.
    private struct Refusing: ~Copyable {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        let port: Int
        init() throws { port = try HostileServer.bind(descriptor) }
        deinit { close(descriptor) }
    }

    @Test(arguments: [[], Array("hello".utf8)] as [[UInt8]])
    func B2_a_refused_connection_is_offline_and_uses_up_no_retry(body: [UInt8]) async throws {
        let refusing = try Refusing()
        let result = try await ending(of: try HTTPTransport(url: "http://127.0.0.1:\(refusing.port)/"), body: body)
        #expect(result.isOffline, "\(result.text)")
        #expect((result.summary, result.stop, result.retriesUsed) == ("queued", .offline, 0))
        #expect(!result.text.isEmpty)
    }

    @Test(arguments: [[], Array("hello".utf8)] as [[UInt8]])
    func B2_a_name_that_does_not_resolve_is_offline(body: [UInt8]) async throws {
        let result = try await ending(of: try HTTPTransport(url: "http://msgqueue.invalid/"), body: body)
        #expect(result.isOffline, "\(result.text)")
        #expect((result.summary, result.stop, result.retriesUsed) == ("queued", .offline, 0))
    }

    @Test func B2_a_connection_that_is_cut_before_the_body_was_sent_is_retried() async throws {
        for cut in [
            HostileServer.Reading.part(0, .reset), .part(0, .close), .part(20, .reset), .part(400_000, .reset), .part(400_000, .close),
        ] {
            let server = try HostileServer(reading: { _ in cut }) { _ in .init(200) }
            let result = try await ending(of: try HTTPTransport(url: server.url), body: [UInt8](repeating: 7, count: 4_000_000))
            server.stop()
            #expect(result.summary.hasPrefix("queued network"), "\(cut): \(result.summary) \(result.text)")
            #expect((result.retriesUsed, server.connections) == (1, 1))
            #expect(server.requests.isEmpty)
        }
    }

    @Test(arguments: [[], Array("hello".utf8)] as [[UInt8]])
    func B2_a_connection_that_is_cut_after_sending_perhaps_arrived(body: [UInt8]) async throws {
        for cut in [HostileServer.Ending.reset, .close] {
            let server = try HostileServer { _ in .init(raw: "", cut) }
            let result = try await ending(of: try HTTPTransport(url: server.url), body: body)
            server.stop()
            #expect(result.summary == "queued network perhaps", "\(cut): \(result.text)")
            #expect((result.retriesUsed, server.connections, server.requests.count) == (1, 1, 1))
        }
    }

    @Test func B2_an_answer_that_does_not_come_is_a_time_out_and_perhaps_arrived() async throws {
        for answer in [HostileServer.Answer(raw: "", .hang), .init(raw: "HTTP/1.1 200 OK\r\nX", .hang)] {
            let server = try HostileServer { _ in answer }
            let http = try HTTPTransport(url: server.url, timeout: .milliseconds(500))
            let begin = ContinuousClock.now
            let result = try await ending(of: http)
            #expect(result.summary == "queued timeout perhaps", "\(result.text)")
            #expect(ContinuousClock.now - begin < .seconds(10))
            #expect(await eventually { server.openConnections == 0 })
            server.stop()
        }
    }

    /// A listener whose queue is full does not answer: connecting takes until the time-out.
    @Test func B2_a_time_out_while_connecting_surely_did_not_arrive() async throws {
        let full = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        defer { close(full) }
        let port = try HostileServer.bind(full)
        #expect(listen(full, 0) == 0)
        var waiting: [Int32] = []
        defer { for peer in waiting { close(peer) } }
        for _ in 0..<8 {
            let peer = socket(AF_INET, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_addr.s_addr = inet_addr("127.0.0.1")
            address.sin_port = UInt16(port).bigEndian
            withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                    _ = connect(peer, pointer, socklen_t(MemoryLayout<sockaddr_in>.size))
                }
            }
            waiting.append(peer)
        }
        let result = try await ending(of: try HTTPTransport(url: "http://127.0.0.1:\(port)/", timeout: .milliseconds(700)))
        #expect(result.summary == "queued timeout no", "\(result.text)")
    }

    @Test func B2_a_slow_server_has_the_whole_time_out() async throws {
        let server = try HostileServer { _ in .init(200, body: "ok", delay: 1.5) }
        defer { server.stop() }
        let result = try await ending(of: try HTTPTransport(url: server.url))
        #expect(result.summary == "sent", "\(result.text)")
    }

    /// Neither the header nor the body of an answer is kept in memory, or waited for, without a limit.
    @Test func B2_an_answer_without_an_end_is_not_read_to_its_end() async throws {
        let mebibyte = String(repeating: "x", count: 1 << 20)
        for (head, summary) in [
            ("HTTP/1.1 200 OK\r\n\r\n", "sent"), ("HTTP/1.1 422 No\r\n\r\n", "failed rejected 422 no"),
            ("HTTP/1.1 503 No\r\n\r\n", "queued server 503 perhaps"),
        ] {
            let server = try HostileServer { _ in .init(raw: head + mebibyte + mebibyte, .hang) }
            let begin = ContinuousClock.now
            let result = try await ending(of: try HTTPTransport(url: server.url), timeout: .seconds(60))
            #expect(result.summary == summary)
            #expect(result.text.utf8.count < 300)
            #expect(ContinuousClock.now - begin < .seconds(30))
            server.stop()
        }
    }

    /// A server whose certificate was not issued by an authority of this system.
    @Test func B2_a_certificate_that_is_not_trusted_is_refused_with_the_reason() async throws {
        let directory = try Directory()
        let (key, certificate) = ("\(directory.path)/key.pem", "\(directory.path)/certificate.pem")
        _ = try Self.run([
            "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-keyout", key, "-out", certificate,
        ])
        .finished()
        let probe = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        let port = try HostileServer.bind(probe)
        close(probe)
        let server = try Self.run(["s_server", "-accept", "127.0.0.1:\(port)", "-key", key, "-cert", certificate, "-quiet"])
        defer { server.end() }
        let http = try HTTPTransport(url: "https://127.0.0.1:\(port)/")
        for body in [[], Array("secret".utf8)] as [[UInt8]] {
            var result = try await ending(of: http, body: body)
            // The server may not have begun to listen.
            for _ in 0..<200 where result.isOffline {
                try await Task.sleep(for: .milliseconds(50))
                result = try await ending(of: http, body: body)
            }
            #expect(result.summary == "queued network no", "\(result.text)")
            #expect(result.text.contains("certificate"), "\(result.text)")
        }
        #expect(!(try server.finished()).contains("POST"))
    }

    /// The same server is accepted with its certificate as an authority, but only under the name that is in it.
    @Test func B2_a_trusted_certificate_counts_only_for_its_name() async throws {
        let directory = try Directory()
        let (key, certificate) = ("\(directory.path)/key.pem", "\(directory.path)/certificate.pem")
        let request = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test"]
        _ = try Self.run(request + ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]).finished()
        let probe = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
        let port = try HostileServer.bind(probe)
        close(probe)
        // This server prints what it receives and does not answer.
        let server = try Self.run(["s_server", "-accept", "127.0.0.1:\(port)", "-key", key, "-cert", certificate, "-quiet"])
        defer { server.end() }
        func transport(_ host: String, _ authorities: String) throws -> HTTPTransport {
            try HTTPTransport(url: "https://\(host):\(port)/", timeout: .seconds(2), authorities: authorities)
        }
        var result = try await ending(of: try transport("127.0.0.1", certificate))
        for _ in 0..<200 where result.isOffline {
            try await Task.sleep(for: .milliseconds(50))
            result = try await ending(of: try transport("127.0.0.1", certificate))
        }
        #expect(result.summary == "queued timeout perhaps", "\(result.text)")
        result = try await ending(of: try transport("localhost", certificate))
        #expect(result.summary == "queued network no", "\(result.text)")
        result = try await ending(of: try transport("127.0.0.1", "\(directory.path)/missing.pem"))
        #expect(result.summary == "queued network no", "\(result.text)")
        #expect(try server.finished().components(separatedBy: "POST / HTTP/1.1").count == 2)
    }

    @Test func B2_a_server_without_TLS_gets_nothing_over_https() async throws {
        let server = try HostileServer(reading: { _ in .part(1, .close) }) { _ in .init(200) }
        defer { server.stop() }
        for body in [[], Array("secret".utf8)] as [[UInt8]] {
            let result = try await ending(of: try HTTPTransport(url: "https://127.0.0.1:\(server.port)/"), body: body)
            #expect(result.summary == "queued network no", "\(result.text)")
        }
        #expect(server.requests.isEmpty)
    }

    private final class Program: @unchecked Sendable {
        private let process = Process()
        private let output = Pipe()
        /// Stays open, because openssl ends a connection at the end of its input.
        private let input = Pipe()

        init(_ arguments: [String]) throws {
            process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
            process.arguments = ["openssl"] + arguments
            process.standardOutput = output
            process.standardError = FileHandle.nullDevice
            process.standardInput = input
            try process.run()
        }

        /// A child may inherit a mask in which other signals are blocked.
        func end() { if process.isRunning { kill(process.processIdentifier, SIGKILL) } }

        /// Ends a server, waits for the end of any other program, and returns what was printed.
        func finished() throws -> String {
            if process.arguments?.contains("s_server") == true { end() }
            let data = try output.fileHandleForReading.readToEnd() ?? Data()
            process.waitUntilExit()
            return String(decoding: data, as: UTF8.self)
        }
    }

    private static func run(_ arguments: [String]) throws -> Program { try Program(arguments) }
}
