import Foundation
import MsgQueue
import Testing

@testable import MsgQueueHTTP

/// Ends of requests in flight: time-outs, cancelled tasks, a queue that is closed.
@Suite struct CancellationTests {
    @Test func B2_a_queue_can_be_closed_while_requests_are_in_flight() async throws {
        let server = try HostileServer { _ in .init(raw: "", .hang) }
        defer { server.stop() }
        let directory = try Directory()
        var options = MessageQueue.Options(mode: .auto, maxInFlight: 8)
        options.attemptTimeout = .seconds(120)
        let queue = try MessageQueue(path: directory.store, options: options, http: try HTTPTransport(url: server.url))
        try queue.enqueue((0..<8).map { MessageQueue.Draft(Array("\($0)".utf8), conversation: "c\($0)") })
        #expect(await eventually { server.requests.count == 8 })
        #expect(server.openConnections == 8)
        #expect(try await queue.close(timeout: .milliseconds(100)) == false)
        // The requests end with the queue.
        #expect(await eventually { server.openConnections == 0 })

        // The messages are sent again under the same ids.
        let later = try HostileServer { _ in .init(200) }
        defer { later.stop() }
        let again = try MessageQueue(path: directory.store, options: options, http: try HTTPTransport(url: later.url))
        #expect(try await eventually { try again.counts().sent == 8 })
        #expect(Set(later.requests.map(\.key)) == Set(server.requests.map(\.key)))
        try await again.close()
    }

    @Test func B2_a_time_out_of_the_attempt_ends_its_request() async throws {
        let server = try HostileServer { $0.number == 0 ? .init(raw: "", .hang) : .init(200) }
        defer { server.stop() }
        let directory = try Directory()
        var options = MessageQueue.Options(mode: .auto, backoff: .ladder([.milliseconds(10)]))
        options.attemptTimeout = .seconds(1)
        let queue = try MessageQueue(path: directory.store, options: options, http: try HTTPTransport(url: server.url))
        let id = try queue.enqueue("x")
        #expect(try await eventually { try queue.counts().sent == 1 })
        let attempts = try queue.attempts(id)
        #expect((attempts.first?.kind, attempts.first?.arrival) == (.timeout, .perhaps))
        #expect(await eventually { server.openConnections == 0 })
        try await queue.close()
    }

    /// Cancelling at every moment of a request, also while it ends, neither blocks nor harms the process.
    @Test func B2_requests_can_be_cancelled_at_any_moment() async throws {
        let server = try HostileServer { request in .init(200, body: "ok", delay: Double(request.number % 5) * 0.001) }
        defer { server.stop() }
        let transfers = HTTPTransfers()
        let url = server.url
        let open = Self.descriptors
        await withTaskGroup(of: Void.self) { group in
            for number in 0..<600 {
                if number >= 16 { await group.next() }
                group.addTask {
                    let task = Task { await transfers.run(try Self.transfer(url)) }
                    try? await Task.sleep(for: .microseconds(number * 37 % 9_000))
                    task.cancel()
                    let result = await task.result
                    guard case .success(let found) = result, case .cancelled = found.ending else {
                        if case .success(let found) = result, found.status == 200 { return }
                        Issue.record("neither an answer nor cancelled: \(result)")
                        return
                    }
                }
            }
        }
        #expect(await eventually { server.openConnections == 0 })
        #expect(await eventually { Self.descriptors <= open + 8 }, "\(open), then \(Self.descriptors)")
    }

    @Test func B2_a_transport_that_is_gone_leaves_nothing_behind() async throws {
        let server = try HostileServer { request in request.number < 20 ? .init(200, body: "ok") : .init(raw: "", .hang) }
        defer { server.stop() }
        let open = Self.descriptors
        let weak = Shared<[Weak]>([])
        var transfers: HTTPTransfers? = HTTPTransfers()
        for _ in 0..<20 {
            let transfer = try Self.transfer(server.url)
            weak.change { $0.append(Weak(transfer)) }
            #expect(await transfers?.run(transfer).status == 200)
        }
        #expect(Self.threads("msgq-http") == 1)
        // One is in flight.
        let last = try Self.transfer(server.url)
        let result = Task { [transfers] in await transfers?.run(last) }
        #expect(await eventually { server.requests.count == 21 })
        result.cancel()
        _ = await result.value
        transfers = nil
        #expect(await eventually { Self.threads("msgq-http") == 0 })
        #expect(await eventually { weak.value.allSatisfy { $0.transfer == nil } })
        #expect(await eventually { Self.descriptors <= open + 4 }, "\(open), then \(Self.descriptors)")
    }

    private struct Weak: @unchecked Sendable {
        weak var transfer: HTTPTransfer?
        init(_ transfer: HTTPTransfer) { self.transfer = transfer }
    }

    private static func transfer(_ url: String) throws -> HTTPTransfer {
        HTTPTransfer(
            to: try HTTPAddress(url), by: HTTPRoute(proxy: nil, authorities: nil, certificate: nil), headers: [],
            body: [UInt8](repeating: 7, count: 3_000), until: .now + .seconds(20))
    }

    /// Open descriptors of this process.
    private static var descriptors: Int { (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count) ?? 0 }

    /// Threads of this process with this name.
    private static func threads(_ name: String) -> Int {
        let tasks = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")) ?? []
        return tasks.filter { (try? String(contentsOfFile: "/proc/self/task/\($0)/comm", encoding: .utf8)) == "\(name)\n" }.count
    }
}
