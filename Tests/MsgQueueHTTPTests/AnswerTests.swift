import MsgQueue
import MsgQueueHTTP
import Testing

/// What the answers mean.
@Suite struct AnswerTests {
    @Test func B2_the_status_decides() async throws {
        let expected = [
            200: "sent", 201: "sent", 204: "sent", 299: "sent", 301: "queued unknown 301 perhaps", 302: "queued unknown 302 perhaps",
            304: "queued unknown 304 perhaps", 307: "queued unknown 307 perhaps", 308: "queued unknown 308 perhaps",
            400: "failed rejected 400 no", 401: "queued", 403: "failed unauthorized 403 no",
            404: "failed notFound 404 no",
            407: "failed rejected 407 no", 408: "queued timeout 408 perhaps", 409: "failed rejected 409 no", 410: "failed notFound 410 no",
            413: "failed rejected 413 no", 417: "failed rejected 417 no", 421: "failed rejected 421 no", 422: "failed rejected 422 no",
            425: "queued server 425 perhaps", 429: "queued rateLimit 429 no", 500: "queued server 500 perhaps",
            503: "queued server 503 perhaps", 600: "queued unknown 600 perhaps", 999: "queued unknown 999 perhaps",
        ]
        for (status, summary) in expected.sorted(by: { $0.key < $1.key }) {
            let server = try HostileServer { _ in .init(raw: "HTTP/1.1 \(status) X\r\nContent-Length: 0\r\nLocation: /else\r\n\r\n") }
            let result = try await ending(of: try HTTPTransport(url: server.url))
            server.stop()
            #expect(result.summary == summary, "\(status): \(result.text)")
            // A redirect is not followed, and nothing is sent twice.
            #expect((server.connections, server.requests.count) == (1, 1), "\(status)")
        }
    }

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

    /// Answers that are cut, invalid, or not HTTP, byte for byte; the server closes the connection after them.
    @Test func B2_each_answer_has_its_outcome() async throws {
        let (cut, nonsense) = ("queued network perhaps", "queued server perhaps")
        let (ok, refused) = ("sent", "failed rejected 422 no")
        let early = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nRetry-After: 60\r\n\r\n"
        let refusal = "HTTP/1.1 422 No\r\nContent-Length: 2\r\n\r\nno"
        let answers: [(String, String)] = [
            ("", cut), ("HTTP/1.1 20", cut), ("HTTP/1.1 200 OK", cut), ("HTTP/1.1 200 OK\r\n", cut),
            ("HTTP/1.1 200 OK\r\nContent-Len", cut),
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n", cut), ("HTTP/1.1 422 No\r\nContent-Length: 0\r\n", cut), (early, cut),
            (early + "HTTP/1.1 200 OK\r\nX: y", cut),
            ("HTTP/1.1 422 No\r\nContent-Length: 9\r\n\r\npart", cut), ("HTTP/1.1 301 No\r\nContent-Length: 9\r\n\r\npart", cut),
            ("HTTP/1.1 422 No\r\nTransfer-Encoding: chunked\r\n\r\n9\r\npart", cut),
            // The status says it all, even if the rest of the answer is lost.
            ("HTTP/1.1 202 OK\r\nContent-Length: 9\r\n\r\npart", ok),
            ("HTTP/1.1 202 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\npart", ok),
            ("HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\npart", "queued server 503 perhaps"),
            ("HTTP/1.1 429 Slow\r\nContent-Length: 9\r\n\r\npart", "queued rateLimit 429 no"),
            ("HTTP/1.1 422 No\r\n\r\nto the end", refused), ("HTTP/1.1 204 No Content\r\n\r\n", ok), ("HTTP/1.0 200 OK\r\n\r\n", ok),
            ("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", ok), ("HTTP/1.1 200 OK\nContent-Length: 2\n\nok", ok),
            (refusal + "more than was promised", refused), (early + refusal, refused),
            ("HTTP/1.1 100 Continue\r\n\r\n" + early + refusal, refused),
            (String(repeating: early, count: 60) + refusal, refused), (String(repeating: early, count: 200) + refusal, nonsense),
            ("HTTP/1.1 422 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\nTrailer: x\r\nRetry-After: 5\r\n\r\n", refused),
            ("HTTP/1.1 422 No\r\n: nameless\r\nX: \u{e9}\u{1}\r\nContent-Length: 2\r\n\r\nno", refused),
            ("HTTP/1.1 422 No\r\nX: a\r\n folded\r\nContent-Length: 2\r\n\r\nno", refused),
            ("HTTP/1.1 422 No\r\nno colon\r\n\r\n", nonsense), ("nonsense\r\n\r\n", nonsense), ("nonsense", nonsense),
            ("SSH-2.0-OpenSSH_9.2\r\n", nonsense),
            ("\u{16}\u{3}\u{1}\u{0}\u{5}hello", nonsense),
            ("HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n", nonsense), ("HTTP/1.1 422 No\r\nContent-Length: x\r\n\r\n", nonsense),
            ("HTTP/1.1 200 OK\r\nX: " + String(repeating: "a", count: 300_000) + "\r\n\r\n", cut),
            ("HTTP/1.1 200 OK\r\n" + String(repeating: "X: a\r\n", count: 100_000) + "\r\n", nonsense),
            // These redirects made URLSession end the process.
            ("HTTP/1.1 302 M\r\nLocation: //h:99999/a b\r\nContent-Length: 0\r\n\r\n", "queued unknown 302 perhaps"),
            ("HTTP/1.1 302 M\r\nLocation: %zz://[\r\nContent-Length: 0\r\n\r\n", "queued unknown 302 perhaps"),
            ("HTTP/1.1 401 No\r\nWWW-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n", "queued"),
            ("HTTP/1.1 401 No\r\nWWW-Authenticate: =,\",\r\nContent-Length: 0\r\n\r\n", "queued"),
            ("HTTP/1.1 422 No\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nno", refused),
        ]
        for (answer, summary) in answers {
            let server = try HostileServer { _ in .init(raw: answer) }
            let result = try await ending(of: try HTTPTransport(url: server.url))
            server.stop()
            #expect(result.summary == summary, "\(answer.prefix(100).debugDescription): \(result.text)")
            #expect(server.requests.count == 1, "\(answer.prefix(100).debugDescription)")
        }
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
