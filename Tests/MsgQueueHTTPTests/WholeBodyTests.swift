import Foundation
import MsgQueue
import MsgQueueHTTP
import Testing

/// Nothing but whole bodies counts as received, however connections end, and nothing is sent twice without need.
@Suite struct WholeBodyTests {
    /// A number that looks random. With the number of the request itself, a client that makes two requests in each attempt would find the
    /// same stages again and again.
    private static func mixed(_ number: Int) -> Int {
        Int(truncatingIfNeeded: (UInt64(truncatingIfNeeded: number) &* 0x9e37_79b9_7f4a_7c15) >> 40)
    }

    /// The stages at which the server cuts a connection, by the number of the request. In between it answers and keeps the connection open.
    private static func stage(_ number: Int) -> HostileServer.Reading {
        switch mixed(number) % 10 {
        case 1: .part(0, .close)
        case 3: .part(0, .reset)
        case 5: .part(60, .reset)
        case 7: .part(1_500, .reset)
        case 9: .part(8_000, .close)
        default: .whole
        }
    }

    /// The answers to requests that were read: whole, none, cut in the header, cut in the body, and whole before the connection ends.
    private static func answer(_ number: Int) -> HostileServer.Answer {
        switch mixed(number) / 10 % 12 {
        case 2: .init(raw: "", .close)
        case 4: .init(raw: "", .reset)
        case 6: .init(raw: "HTTP/1.1 200 OK\r\nContent-", .close)
        case 8: .init(raw: "HTTP/1.1 503 Busy\r\nContent-Length: 90\r\n\r\npart", .close)
        case 10: .init(raw: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", .close)
        default: .init(200, body: "ok")
        }
    }

    @Test func B2_bodies_arrive_whole_while_connections_are_cut_at_every_stage() async throws {
        let server = try HostileServer(reading: Self.stage) { Self.answer($0.number) }
        defer { server.stop() }
        let directory = try Directory()
        var options = MessageQueue.Options(mode: .auto, backoff: .ladder(Array(repeating: .milliseconds(1), count: 40)), maxInFlight: 8)
        options.maxRetries = 40
        let queue = try MessageQueue(path: directory.store, options: options, http: try HTTPTransport(url: server.url))
        var bodies: [String: [UInt8]] = [:]
        for number in 0..<300 {
            // Sizes from nothing to more than a buffer of the socket.
            let body = [UInt8](repeating: UInt8(97 + number % 26), count: number * number % 20_011)
            let id = try queue.enqueue(MessageQueue.Draft(body, conversation: "c\(number % 16)"))
            bodies["\"\(id)\""] = body
        }
        #expect(try await eventually(within: 120) { try queue.counts().sent + queue.counts().failed == 300 })
        let failed = try queue.list(MessageQueue.Filter(statuses: [.failed]))
        #expect(failed.map { "\($0.attempts) attempts: \(String(describing: $0.failure))" } == [])
        #expect(try queue.counts().sent == 300)
        try await queue.close()

        #expect(server.truncated.map { "\($0.number): \($0.body.count) of \($0.length)" } == [])
        let wrong = server.requests.filter { $0.body != bodies[$0.key] }
        #expect(wrong.map { "\($0.number): \($0.body.count) of \(bodies[$0.key]?.count ?? -1)" } == [])
        #expect(Set(server.requests.map(\.key)) == Set(bodies.keys))
    }

    @Test func B2_two_thousand_messages_with_many_in_flight_arrive_exactly_once() async throws {
        let server = try HostileServer { request in .init(200, delay: request.number % 7 == 0 ? 0.02 : 0.002) }
        defer { server.stop() }
        let directory = try Directory()
        var options = MessageQueue.Options(mode: .manual, maxInFlight: 32)
        options.direct = false
        options.attemptTimeout = .seconds(60)
        let queue = try MessageQueue(path: directory.store, options: options, http: try HTTPTransport(url: server.url))
        let ids = try queue.enqueue((0..<2_000).map { MessageQueue.Draft(Array("\($0)".utf8), conversation: "c\($0 % 100)") })
        let report = try await queue.drain()
        #expect((report.sent, report.failed, report.remaining) == (2_000, 0, 0))
        try await queue.close()

        let requests = server.requests
        #expect(requests.count == 2_000)
        #expect(Set(requests.map(\.key)) == Set(ids.map { "\"\($0)\"" }))
        #expect(Set(requests.map(\.text)) == Set((0..<2_000).map { "\($0)" }))
        // Each conversation is in order.
        var last: [Int: Int] = [:]
        for number in requests.compactMap({ Int($0.text) }) {
            #expect(last[number % 100, default: -1] < number)
            last[number % 100] = number
        }
        #expect(server.mostAtOnce > 4)
        #expect(await eventually { server.openConnections == 0 })
    }
}
