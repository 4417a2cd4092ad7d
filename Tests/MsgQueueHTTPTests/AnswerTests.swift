import MsgQueue
import MsgQueueHTTP
import Testing

/// What the answers mean.
@Suite struct AnswerTests {
    @Test func B2_409_after_an_attempt_that_perhaps_arrived_is_retried() async throws {
        let server = try HostileServer { $0.number == 0 ? .init(raw: "") : .init(409) }
        defer { server.stop() }
        let directory = try Directory()
        var options = MessageQueue.Options(mode: .auto, backoff: .ladder([.milliseconds(10), .seconds(600)]))
        options.direct = true
        let queue = try MessageQueue(path: directory.store, options: options, http: try HTTPTransport(url: server.url))
        let id = try queue.enqueue("x")
        // The attempt in flight is listed, too, and has no kind.
        #expect(try await eventually { try queue.attempts(id).compactMap(\.kind).count == 2 })
        let last = try #require(try queue.attempts(id).last)
        #expect((last.kind, last.code) == (.server, 409))
        try await queue.close()
    }

    @Test(arguments: ["120", "  120  ", "Fri, 31 Dec 2199 23:59:59 GMT", "99999999999999999999"])
    func B2_Retry_After_delays_the_next_attempt_up_to_seven_days(value: String) async throws {
        let server = try HostileServer { _ in .init(503, ["retry-AFTER": value]) }
        defer { server.stop() }
        let directory = try Directory()
        var options = MessageQueue.Options(mode: .manual, backoff: .ladder([.milliseconds(1)]))
        options.direct = false
        let queue = try MessageQueue(path: directory.store, options: options, http: try HTTPTransport(url: server.url))
        let id = try queue.enqueue("x")
        try await queue.drain()
        let message = try queue.message(id: id)
        let (next, last) = (try #require(message.nextAttemptAt), try #require(message.lastAttemptAt))
        let delay = next.millisecondsSince1970 - last.millisecondsSince1970
        #expect((119_000...(7 * 86_400_000 + 60_000)).contains(delay), "\(delay) ms")
        try await queue.close()
    }

    @Test(arguments: ["", "soon", "-5", "1.5", "Fri, 99 Dec 2199 23:59:59 GMT", String(repeating: "9", count: 5_000)])
    func B2_an_invalid_Retry_After_is_ignored(value: String) async throws {
        let server = try HostileServer { _ in .init(503, ["Retry-After": value]) }
        defer { server.stop() }
        let result = try await ending(of: try HTTPTransport(url: server.url))
        #expect(result.summary == "queued server 503 perhaps")
    }

    /// `Tests/fixtures/http-answers.txt`: the same table in C, Python and Swift.
    @Test func B2_each_answer_has_its_outcome() async throws {
        let rows = try AnswerTable.rows()
        #expect(rows.count > 80)
        for (outcome, answer) in rows {
            let server = try HostileServer { _ in .init(bytes: answer, ending: .close) }
            let result = try await ending(of: try HTTPTransport(url: server.url))
            server.stop()
            let shown = String(decoding: answer.prefix(100), as: UTF8.self).debugDescription
            #expect(AnswerTable.outcome(result) == outcome, "\(shown): \(result.text)")
            // A redirect is not followed, and nothing is sent twice.
            #expect((server.connections, server.requests.count) == (1, 1), "\(shown)")
        }
    }

    /// Answers that are too long for the table, or that not all clients read in the same way.
    @Test func B2_long_and_unusual_answers_have_their_outcome() async throws {
        let early = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nRetry-After: 60\r\n\r\n"
        let refusal = "HTTP/1.1 422 No\r\nContent-Length: 2\r\n\r\nno"
        let answers: [(String, String)] = [
            (String(repeating: early, count: 60) + refusal, "failed rejected 422 no"),
            (String(repeating: early, count: 200) + refusal, "queued server perhaps"),
            ("HTTP/1.1 101 Switching Protocols\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "queued server perhaps"),
            ("HTTP/1.1 200 OK\r\nX: " + String(repeating: "a", count: 300_000) + "\r\n\r\n", "queued network perhaps"),
            ("HTTP/1.1 200 OK\r\n" + String(repeating: "X: a\r\n", count: 100_000) + "\r\n", "queued server perhaps"),
        ]
        for (answer, summary) in answers {
            let server = try HostileServer { _ in .init(raw: answer) }
            let result = try await ending(of: try HTTPTransport(url: server.url))
            server.stop()
            #expect(result.summary == summary, "\(answer.prefix(100).debugDescription): \(result.text)")
        }
    }

    @Test(arguments: ["", "WWW-Authenticate: Basic realm=x\r\n", "WWW-Authenticate: =,\",\r\n"])
    func B2_401_leaves_the_message_queued(header: String) async throws {
        let server = try HostileServer { _ in .init(raw: "HTTP/1.1 401 No\r\n\(header)Content-Length: 0\r\n\r\n") }
        defer { server.stop() }
        #expect(try await ending(of: try HTTPTransport(url: server.url)).summary == "queued")
    }

    /// The text of a failure has the status and the beginning of the answer, in one line.
    @Test func B2_the_text_of_a_failure_is_the_beginning_of_the_answer() async throws {
        let server = try HostileServer { _ in .init(422, body: " not\r\n\tvalid: " + String(repeating: "x", count: 5_000)) }
        defer { server.stop() }
        let result = try await ending(of: try HTTPTransport(url: server.url))
        #expect(result.text.hasPrefix("HTTP 422: not valid: xxx"), "\(result.text)")
        #expect(result.text.count == "HTTP 422: ".count + 200)
    }
}
