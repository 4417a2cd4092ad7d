import Foundation
import MsgQueue
import MsgQueueHTTP
import Testing

/// What is sent.
@Suite struct RequestTests {
    @Test func B2_a_message_is_posted_with_its_key_and_headers() async throws {
        let server = try HostileServer { _ in .init(200, body: "ok") }
        defer { server.stop() }
        let http = try HTTPTransport(url: server.url, headers: ["X-Own": "a: b, c", "Empty": ""])
        let directory = try Directory()
        let queue = try manual(directory, http)
        let id = try queue.enqueue(MessageQueue.Draft([0, 255, 13, 10]))
        #expect(try await queue.drain().sent == 1)
        try await queue.close()
        let request = try #require(server.requests.first)
        #expect(request.line == "POST /in?a=b HTTP/1.1")
        #expect(request.body == [0, 255, 13, 10])
        let headers = request.headers
        #expect(headers["idempotency-key"] == "\"\(id)\"")
        #expect(headers["content-type"] == "application/octet-stream")
        #expect(headers["content-length"] == "4")
        #expect((headers["x-own"], headers["empty"]) == ("a: b, c", ""))
        #expect(headers["host"] == "127.0.0.1:\(server.port)")
        #expect(headers["user-agent"]?.hasPrefix("libmsgqueue/") == true)
        #expect(headers["connection"] == "close")
        for name in ["expect", "transfer-encoding", "authorization", "cookie", "traceparent", "tracestate"] {
            #expect(headers[name] == nil, "\(name)")
        }
    }

    @Test func B2_an_empty_body_and_a_content_type_of_the_host() async throws {
        let server = try HostileServer { _ in .init(204) }
        defer { server.stop() }
        let http = try HTTPTransport(url: server.url, headers: ["content-type": "text/plain; charset=utf-8"])
        let result = try await ending(of: http, body: [])
        #expect(result.summary == "sent", "\(result.text)")
        let request = try #require(server.requests.first)
        #expect((request.headers["content-length"], request.headers["content-type"]) == ("0", "text/plain; charset=utf-8"))
        #expect(request.body.isEmpty)
    }

    /// RFC 9651: a string, with `"` and `\` escaped; of an id outside ASCII a display string.
    @Test func B2_the_key_of_any_id_is_one_line_and_its_own() async throws {
        let server = try HostileServer { _ in .init(200) }
        defer { server.stop() }
        let keys = [
            ("a", #""a""#), (#"a"\"#, #""a\"\\""#), ("a%b c", #""a%b c""#), ("ü%", #"%"%c3%bc%25""#), ("%\"%c3%bc\"", #""%\"%c3%bc\"""#),
            ("漢\"", #"%"%e6%bc%a2%22""#),
        ]
        let directory = try Directory()
        let queue = try manual(directory, try HTTPTransport(url: server.url))
        for (id, _) in keys { try queue.enqueue(MessageQueue.Draft([1], id: id)) }
        #expect(try await queue.drain().sent == keys.count)
        try await queue.close()
        #expect(server.requests.map(\.key) == keys.map(\.1))
    }

    private static let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    /// The rules of W3C Trace Context, with the cases of its test suite.
    @Test func B2_B8_a_valid_trace_context_is_sent_and_an_invalid_one_is_not() async throws {
        let server = try HostileServer { _ in .init(200) }
        defer { server.stop() }
        let parent = Self.parent
        let many = (1...33).map { "k\($0)=v" }
        let cases: [(metadata: [String: String], parent: String?, state: String?)] = [
            (["traceparent": parent], parent, nil),
            (
                ["traceparent": parent, "tracestate": "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"], parent,
                "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"
            ),
            (["traceparent": parent, "tracestate": "a@b=1 , 0x=  2,, "], parent, "a@b=1 , 0x=  2,,"),
            (
                ["traceparent": "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-follows"],
                "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-follows", nil
            ),
            (
                ["traceparent": parent, "tracestate": many.dropLast().joined(separator: ",")], parent,
                many.dropLast().joined(separator: ",")
            ),
            (["traceparent": parent, "tracestate": many.joined(separator: ",")], parent, nil),
            (
                ["traceparent": parent, "tracestate": String(repeating: "k", count: 256) + "=" + String(repeating: "v", count: 256)],
                parent,
                String(repeating: "k", count: 256) + "=" + String(repeating: "v", count: 256)
            ),
            (["traceparent": parent, "tracestate": String(repeating: "k", count: 257) + "=v"], parent, nil),
            (["traceparent": parent, "tracestate": "k=" + String(repeating: "v", count: 257)], parent, nil),
            (["tracestate": "a=1"], nil, nil), (["traceparent": "", "tracestate": "a=1"], nil, nil),
        ]
        let invalidParents = [
            "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01", "0-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-1", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333g-01",
            " \(parent)", "\(parent) ", "\(parent)\r\nX: y", "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.x",
            parent + "-\r\nX: y",
        ]
        let invalidStates = [
            "", " ", ",", "a", "a=", "A=1", "=1", "a=b=c", "a=1,b", "_a=1", "a =1", "a=\u{1}", "a=1\r\nX: y", "a=ü", "a.b=1",
            "a=1,b=2,a=3",
        ]
        let all =
            cases + invalidParents.map { (["traceparent": $0, "tracestate": "a=1"], nil, nil) }
            + invalidStates.map { (["traceparent": parent, "tracestate": $0], parent, nil) }
        let directory = try Directory()
        let queue = try manual(directory, try HTTPTransport(url: server.url))
        for each in all { try queue.enqueue(MessageQueue.Draft([1], metadata: each.metadata)) }
        #expect(try await queue.drain().sent == all.count)
        try await queue.close()
        for (each, request) in zip(all, server.requests) {
            #expect(request.headers["traceparent"] == each.parent, "\(each.metadata)")
            #expect(request.headers["tracestate"] == each.state, "\(each.metadata)")
            #expect(request.headers["x"] == nil)
        }
    }

    @Test(arguments: [
        "", "x", "ftp://a/", "http://", "http:///x", "http://a:99999/", "http://u:p@a/", "http://u@a/", "http://a/b c",
        "http://a/\r\nX: 1", "http://a/#x", "http://a/ü", "//a/", "http://[::1/", "http://a b/",
    ])
    func B2_wrong_URLs_are_refused(url: String) {
        #expect { try HTTPTransport(url: url) } throws: { ($0 as? MessageQueue.Error)?.code == .invalid }
    }

    @Test(arguments: [
        ["A b": "x"], ["A": "x\r\nB: y"], ["A": "x\0"], ["A": "€"], ["A": "\u{7f}"], ["Host": "x"], ["idempotency-key": "x"], ["": "x"],
        ["Content-Length": "5"], ["Transfer-Encoding": "chunked"], ["Expect": "100-continue"], ["Connection": "keep-alive"],
        ["traceparent": "x"], ["A": "x", "a": "y"], ["A:": "x"], ["Ä": "x"],
    ])
    func B2_wrong_headers_are_refused(headers: [String: String]) {
        #expect { try HTTPTransport(url: "http://127.0.0.1/", headers: headers) } throws: {
            ($0 as? MessageQueue.Error)?.code == .invalid
        }
    }

    @Test func B2_a_time_out_must_be_positive() {
        for timeout in [Duration.zero, .seconds(-1)] {
            #expect(throws: MessageQueue.Error.self) { try HTTPTransport(url: "http://127.0.0.1/", timeout: timeout) }
        }
    }
}
