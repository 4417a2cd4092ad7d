import Testing

@testable import MsgQueue

/// A transport that completes attempts later, by token.
@Suite struct PendingTests {
    private let directory = TemporaryDirectory()

    private final class Tokens: @unchecked Sendable {
        private let mutex = Mutex()
        private var given: [MessageQueue.Token] = []
        func add(_ token: MessageQueue.Token) { mutex.withLock { given.append(token) } }
        var all: [MessageQueue.Token] { mutex.withLock { given } }
    }

    private func options(_ change: (inout MessageQueue.Options) -> Void = { _ in }) -> MessageQueue.Options {
        var options = MessageQueue.Options()
        options.attemptTimeout = .seconds(600)
        change(&options)
        return options
    }

    @Test func X8_a_pending_outcome_is_completed_later_by_token() async throws {
        let tokens = Tokens()
        let queue = try MessageQueue(path: directory.store, options: options()) { delivery in
            tokens.add(delivery.token)
            return .pending
        }
        let id = try queue.enqueue("1")
        #expect(await eventually { tokens.all.count == 1 })
        #expect(try queue.message(id: id).status == .sending)
        #expect(refusal { try queue.complete(tokens.all[0], with: .pending) } == .invalid)
        try queue.complete(tokens.all[0], with: .sent)
        #expect(try queue.message(id: id).status == .sent)
        #expect(refusal { try queue.complete(tokens.all[0], with: .sent) } == .conflict)
        let refused = try queue.enqueue("2")
        #expect(await eventually { tokens.all.count == 2 })
        try queue.complete(tokens.all[1], with: .reject(.rejected, code: 400, text: "no"))
        let message = try queue.message(id: refused)
        #expect(message.status == .failed && message.failure?.kind == .rejected && message.failure?.code == 400)
        #expect(refusal { try queue.complete(.init(rawValue: 1), with: .sent) } == .notFound)
        #expect(try await queue.close())
    }

    @Test func A13_an_outcome_may_have_a_receipt() async throws {
        let tokens = Tokens()
        let queue = try MessageQueue(path: directory.store, options: options()) { delivery in
            guard delivery.conversation != "later" else {
                tokens.add(delivery.token)
                return .pending
            }
            switch delivery.conversation {
            case "wrong": return .sent(receipt: .failed)
            case "http": return .http(delivery.text == "no" ? 422 : 201, receipt: .read)
            default: return .sent(receipt: .delivered)
            }
        }
        let events = queue.events
        let id = try queue.enqueue("1")
        var changes: [MessageQueue.Status] = []
        for await event in events {
            guard case .status(let change) = event, change.id == id else { continue }
            changes.append(change.to)
            if change.to == .delivered { break }
        }
        #expect(changes == [.queued, .sending, .sent, .delivered])
        let delivered = try queue.message(id: id)
        #expect(delivered.status == .delivered && delivered.deliveredAt != nil && delivered.deliveredAt == delivered.sentAt)
        let wrong = try queue.enqueue("2", conversation: "wrong")
        #expect(try await eventually { try queue.message(id: wrong).status == .sent })
        let response = try queue.enqueue("yes", conversation: "http")
        #expect(try await eventually { try queue.message(id: response).status == .read })
        let refused = try queue.enqueue("no", conversation: "http")
        #expect(try await eventually { try queue.message(id: refused).status == .failed })
        let later = try queue.enqueue("3", conversation: "later")
        #expect(await eventually { tokens.all.count == 1 })
        try queue.complete(tokens.all[0], with: .sent(receipt: .read))
        #expect(try queue.message(id: later).status == .read)
        #expect(try await queue.close())
    }

    @Test func X8_a_pending_attempt_may_be_completed_before_the_transport_returns() async throws {
        let box = Box()
        let queue = try MessageQueue(path: directory.store, options: options()) { delivery in
            while box.queue == nil { try? await Task.sleep(for: .milliseconds(1)) }
            try? box.queue?.complete(delivery.token, with: .sent)
            return .pending
        }
        box.queue = queue
        let id = try queue.enqueue("1")
        #expect(try await eventually { try queue.message(id: id).status == .sent })
        #expect(try queue.attempts(id).map(\.outcome) == [.sent])
        box.queue = nil
        try await queue.close()
    }

    @Test func X8_a_pending_attempt_that_times_out_is_retried_and_only_the_latest_counts() async throws {
        let tokens = Tokens()
        let queue = try MessageQueue(
            path: directory.store,
            options: options {
                $0.attemptTimeout = .milliseconds(20)
                $0.backoff = .ladder([.milliseconds(1)])
            }
        ) { delivery in
            tokens.add(delivery.token)
            return delivery.attempt == 1 ? .pending : .sent
        }
        let id = try queue.enqueue("1")
        #expect(try await eventually { try queue.message(id: id).status == .sent })
        #expect(try queue.attempts(id).map(\.kind) == [.timeout, nil])
        #expect(refusal { try queue.complete(tokens.all[0], with: .sent) } == .conflict)
        try await queue.close()
    }

    @Test func X8_close_waits_for_pending_attempts() async throws {
        let tokens = Tokens()
        let queue = try MessageQueue(path: directory.store, options: options()) { delivery in
            tokens.add(delivery.token)
            return .pending
        }
        let id = try queue.enqueue("1")
        #expect(await eventually { tokens.all.count == 1 })
        async let isQuiet = queue.close(timeout: nil)
        // When reads are refused, close has begun; the attempt still counts.
        #expect(await eventually { refusal { _ = try queue.counts() } == .closed })
        try queue.complete(tokens.all[0], with: .sent)
        #expect(try await isQuiet)
        let next = try MessageQueue(path: directory.store, options: options())
        #expect(try next.message(id: id).status == .sent)
        try await next.close()
    }

    private final class Box: @unchecked Sendable {
        private let mutex = Mutex()
        private var held: MessageQueue?
        var queue: MessageQueue? {
            get { mutex.withLock { held } }
            set { mutex.withLock { held = newValue } }
        }
    }
}
