import Foundation
import MsgQueue
import MsgQueueHTTP

/// A directory of its own, removed with its content when the object is deallocated.
final class Directory: Sendable {
    let path: String

    init() throws {
        let url = FileManager.default.temporaryDirectory.appendingPathComponent("msgqueue-http-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        path = url.path
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    var store: String { "\(path)/outbox.db" }
}

/// Waits until the condition is true; returns false when that takes too long.
func eventually(within seconds: Int = 30, _ condition: () throws -> Bool) async rethrows -> Bool {
    let deadline = ContinuousClock.now + .seconds(seconds)
    while true {
        if try condition() { return true }
        guard ContinuousClock.now < deadline else { return false }
        try? await Task.sleep(for: .milliseconds(5))
    }
}

/// A value that several tasks and threads change.
final class Shared<Value: Sendable>: @unchecked Sendable {
    private let lock = NSLock()
    private var stored: Value

    init(_ value: Value) { stored = value }

    var value: Value { lock.withLock { stored } }
    func change<T>(_ body: (inout Value) -> T) -> T { lock.withLock { body(&stored) } }
}

/// A manual queue without direct sending: only `drain` sends.
func manual(
    _ directory: Directory, _ http: HTTPTransport, timeout: Duration = .seconds(20), maxInFlight: Int = 1
) throws -> MessageQueue {
    var options = MessageQueue.Options(mode: .manual, maxInFlight: maxInFlight)
    options.direct = false
    options.attemptTimeout = timeout
    return try MessageQueue(path: directory.store, options: options, http: http)
}

/// How one attempt ended, by the queue's own records.
struct Ending: Sendable {
    let status: MessageQueue.Status
    /// nil: the attempt is not in the records, because it was a success or not transmitted.
    let attempt: MessageQueue.Attempt?
    /// What the transport returned.
    let outcome: MessageQueue.Outcome
    let retriesUsed: Int
    let stop: MessageQueue.Report.Stop

    var text: String { outcome.engine.text }
    var isOffline: Bool { outcome.engine.verdict == .offline }

    /// "sent", or for example "queued network perhaps".
    var summary: String {
        if status == .sent { return "sent" }
        let words = [attempt?.kind.map { "\($0)" }, attempt?.code.map { "\($0)" }, attempt.map { "\($0.arrival)" }]
        return (["\(status)"] + words.compactMap { $0 }).joined(separator: " ")
    }
}

/// Sends one message of a new queue and returns how its attempt ended.
func ending(
    of http: HTTPTransport, body: [UInt8] = Array("hello".utf8), timeout: Duration = .seconds(20), retries: [Duration] = [.seconds(60)]
) async throws -> Ending {
    let directory = try Directory()
    let outcome = Shared<MessageQueue.Outcome>(.skipped)
    var options = MessageQueue.Options(mode: .manual, backoff: .ladder(retries))
    options.direct = false
    options.attemptTimeout = timeout
    options.limitBody = 8 << 20
    let queue = try MessageQueue(path: directory.store, options: options) { delivery in
        let answer = await http.send(delivery)
        outcome.change { $0 = answer }
        return answer
    }
    let id = try queue.enqueue(MessageQueue.Draft(body))
    let report = try await queue.drain()
    let message = try queue.message(id: id)
    let attempt = try queue.attempts(id).last
    try await queue.close()
    return Ending(
        status: message.status, attempt: attempt, outcome: outcome.value, retriesUsed: message.retriesUsed, stop: report.stop)
}
