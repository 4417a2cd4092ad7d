import Foundation
import MsgQueue
import MsgQueueHTTP
import Testing

/// The bearer token, which is asked for once; refused credentials hold the queue.
@Suite struct TokenTests {
    /// A server that accepts one token, and a transport that asks for tokens.
    private struct SignIn {
        /// The token that the server accepts.
        let good: Shared<String>
        /// For each time that the transport asked: the token that was refused.
        let asked = Shared<[String?]>([])
        let server: HostileServer
        let http: HTTPTransport
        let directory: Directory

        /// `give` returns a token; it receives the one that the server accepts, and how often was asked.
        init(
            accepting token: String, isFinal: Bool = false,
            give: @escaping @Sendable (_ good: Shared<String>, _ times: Int) async throws -> String
        ) throws {
            let (good, asked) = (Shared(token), asked)
            self.good = good
            directory = try Directory()
            server = try HostileServer {
                $0.headers["authorization"] == "Bearer \(good.value)" ? .init(200) : .init(401, body: "expired")
            }
            http = try HTTPTransport(url: server.url, unauthorizedIsFinal: isFinal) { refused in
                asked.change { $0.append(refused) }
                return try await give(good, asked.value.count)
            }
        }
    }

    @Test func B2_a_new_token_is_asked_for_once_after_401() async throws {
        let signIn = try SignIn(accepting: "t1") { good, _ in good.value }
        defer { signIn.server.stop() }
        let queue = try manual(signIn.directory, signIn.http)
        try queue.enqueue(["a", "b"].map { MessageQueue.Draft(Array($0.utf8)) })
        #expect(try await queue.drain().sent == 2)
        #expect(signIn.asked.value == [nil])

        signIn.good.change { $0 = "t2" }
        let id = try queue.enqueue("c")
        #expect(try await queue.drain().sent == 1)
        #expect(signIn.asked.value == [nil, "t1"])
        // Both requests belong to one attempt, and have the same key.
        #expect(try queue.message(id: id).attempts == 1)
        #expect(signIn.server.requests.suffix(2).map(\.key) == ["\"\(id)\"", "\"\(id)\""])
        #expect(signIn.server.requests.map { $0.headers["authorization"] } == ["Bearer t1", "Bearer t1", "Bearer t1", "Bearer t2"])
        try await queue.close()
    }

    @Test func B2_refused_credentials_hold_the_queue_and_use_up_no_retry() async throws {
        let isRight = Shared(false)
        let server = try HostileServer { _ in .init(isRight.value ? 200 : 401) }
        defer { server.stop() }
        let directory = try Directory()
        for (number, http) in [
            try HTTPTransport(url: server.url, headers: ["Authorization": "Basic x"]), try HTTPTransport(url: server.url) { _ in "t" },
        ].enumerated() {
            isRight.change { $0 = false }
            let before = server.requests.count
            var options = MessageQueue.Options(mode: .auto, backoff: .ladder([]))
            options.maxInFlight = 8
            let queue = try MessageQueue(path: "\(directory.store)\(number)", options: options, http: http)
            let start = ContinuousClock.now
            let ids = try (0..<200).map { try queue.enqueue("\($0)", conversation: "c\($0)") }
            #expect(try await eventually { try queue.state().offlineReason?.hasSuffix(" answered 401") == true })
            // At most one a second after the first ones, which may be on their way together.
            #expect(server.requests.count - before <= 8 + 1 + Int((ContinuousClock.now - start).components.seconds))
            #expect(try queue.counts().failed == 0)
            isRight.change { $0 = true }
            #expect(try await eventually { try queue.counts().sent == 200 })
            for id in ids { #expect(try queue.message(id: id).attempts == 1) }
            try await queue.close()
        }
    }

    @Test func B2_M7_a_refused_token_pauses_the_queue_and_uses_up_no_retry() async throws {
        let signIn = try SignIn(accepting: "good", isFinal: true) { _, times in "bad\(times)" }
        defer { signIn.server.stop() }
        let queue = try manual(signIn.directory, signIn.http)
        let ids = try queue.enqueue((0..<20).map { MessageQueue.Draft(Array("\($0)".utf8), conversation: "c\($0)") })
        let report = try await queue.drain()
        #expect((report.stop, report.sent, report.failed, report.remaining) == (.paused, 0, 0, 20))
        #expect(signIn.asked.value == [nil, "bad1"])
        #expect(signIn.server.requests.count == 2)
        let first = try queue.message(id: try #require(ids.first))
        #expect((first.status, first.retriesUsed, first.failure?.kind, first.failure?.code) == (.queued, 0, .unauthorized, 401))
        #expect(try queue.state().isPaused)

        // The person signed in.
        signIn.good.change { $0 = "bad3" }
        try queue.resume()
        #expect(try await queue.drain().sent == 20)
        #expect(signIn.asked.value == [nil, "bad1", "bad2"])
        try await queue.close()
    }

    @Test func B2_M7_without_a_token_nothing_is_sent_and_the_queue_pauses() async throws {
        let server = try HostileServer { _ in .init(200) }
        defer { server.stop() }
        let http = try HTTPTransport(url: server.url, unauthorizedIsFinal: true) { _ in nil }
        let directory = try Directory()
        let queue = try manual(directory, http)
        let id = try queue.enqueue("a")
        #expect(try await queue.drain().stop == .paused)
        let message = try queue.message(id: id)
        #expect((message.status, message.retriesUsed, message.failure?.kind) == (.queued, 0, .unauthorized))
        #expect(server.connections == 0)
        try await queue.close()
    }

    @Test func B2_a_token_that_cannot_be_had_now_holds_the_queue_and_nothing_is_sent() async throws {
        struct Away: Error {}
        let server = try HostileServer { _ in .init(200) }
        defer { server.stop() }
        for wrong in ["", "a b", "a\r\nX: y", "ü"] {
            let result = try await ending(of: try HTTPTransport(url: server.url) { _ in wrong })
            #expect((result.summary, result.stop) == ("queued", .offline))
        }
        let missing = try await ending(of: try HTTPTransport(url: server.url) { _ in nil })
        #expect((missing.summary, missing.stop, missing.retriesUsed) == ("queued", .offline, 0))
        let thrown = try await ending(of: try HTTPTransport(url: server.url) { _ in throw Away() })
        #expect((thrown.summary, thrown.stop, thrown.retriesUsed) == ("queued", .offline, 0))
        let late = try await ending(
            of: try HTTPTransport(url: server.url, timeout: .milliseconds(200)) { _ in
                try await Task.sleep(for: .seconds(3))
                return "late"
            })
        #expect((late.summary, late.stop, late.retriesUsed) == ("queued", .offline, 0))
        #expect(server.connections == 0)
    }

    @Test func B2_attempts_at_the_same_time_ask_for_one_token_together() async throws {
        let signIn = try SignIn(accepting: "t1") { good, _ in
            try await Task.sleep(for: .milliseconds(100))
            return good.value
        }
        defer { signIn.server.stop() }
        let queue = try manual(signIn.directory, signIn.http, maxInFlight: 16)
        func send() async throws -> Int {
            try queue.enqueue((0..<64).map { MessageQueue.Draft(Array("x".utf8), conversation: "c\($0)") })
            return try await queue.drain().sent
        }
        #expect(try await send() == 64)
        #expect(signIn.asked.value == [nil])
        signIn.good.change { $0 = "t2" }
        #expect(try await send() == 64)
        #expect(signIn.asked.value == [nil, "t1"])
        try await queue.close()
    }

    @Test func B2_no_text_shows_a_part_of_a_password() {
        let logins = ["u:x7q/9zk@h", "u:x7q?9zk@h", "u:x7q#9zk@h", "u:x7q9zk@h:x", "u:x7q 9zk@h"]
        for url in logins.map({ "http://\($0)/" }) + ["ftp://u:x7q9zk@h/"] {
            let error = #expect(throws: MessageQueue.Error.self) { try HTTPTransport(url: url) }
            #expect(error?.detail.contains("x7q") == false && error?.detail.contains("9zk") == false, "\(url)")
        }
    }

    @Test func B2_a_token_source_and_the_header_exclude_each_other() {
        #expect(throws: MessageQueue.Error.self) {
            try HTTPTransport(url: "http://127.0.0.1/", headers: ["authorization": "x"]) { _ in "t" }
        }
    }
}
