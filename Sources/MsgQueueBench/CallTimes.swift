import Glibc
import MsgQueue

/// The time of each call that reads or changes the store, by the number of messages and of conversations, and how long it holds others.
struct CallTimes {
    private static let depths = [1_000, 100_000, 1_000_000]
    private static let conversations = [1, 1_000, 100_000]
    private static let body = [UInt8](repeating: 0x6d, count: Work.bodySize)

    let directory: String
    let deepest: Int
    /// The calls to measure; empty: all of them, at every depth. Otherwise only the deepest store is measured.
    let only: Set<String>

    func run() throws {
        print("messages conversations call p50_ms p99_ms held_ms held_cpu_ms")
        for depth in Self.depths where depth <= deepest && (only.isEmpty || depth == deepest) {
            for conversations in Self.conversations where conversations <= depth {
                let folder = try Folder(in: directory)
                defer { folder.remove() }
                try Store(folder.path, depth, conversations, only).measure()
            }
        }
    }

    /// One store.
    private final class Store {
        private let (folder, depth, conversations): (String, Int, Int)
        private var engine: Engine
        private let options: Options
        private let only: Set<String>
        private var ids: [String] = []
        private var next = 0

        init(_ folder: String, _ depth: Int, _ conversations: Int, _ only: Set<String>) throws {
            (self.folder, self.depth, self.conversations, self.only) = (folder, depth, conversations, only)
            var options = Options()
            (options.mode, options.direct) = (.manual, false)
            (engine, self.options) = (try Engine.open(path: "\(folder)/queue.db", options: options), options)
        }

        private func withDraft<Value>(_ conversation: String, _ body: (BorrowedDraft) throws -> Value) throws -> Value {
            try CallTimes.body.withUnsafeBytes { bytes in
                try body(
                    BorrowedDraft(
                        id: nil, conversation: Name(conversation), body: bytes, metadata: [], notBefore: 0, expiresAt: 0,
                        unmeteredOnly: false))
            }
        }

        private func fill(_ count: Int, notBefore: Int64 = 0) throws {
            var left = count
            while left > 0 {
                let (part, first) = (min(left, 10_000), left)
                ids += try CallTimes.body.withUnsafeBytes { bytes in
                    let drafts = (0..<part).map { place in
                        BorrowedDraft(
                            id: nil, conversation: Name("c\((first + place) % conversations)"), body: bytes, metadata: [],
                            notBefore: notBefore, expiresAt: 0, unmeteredOnly: false)
                    }
                    return try engine.enqueue(DraftBatch(count: part) { Array(drafts[$0]) }).ids()
                }
                left -= part
            }
        }

        /// Another message each time.
        private var id: String {
            next = (next + 7_919) % max(ids.count, 1)
            return ids[next]
        }

        private func measure(_ name: String, _ times: Int = 50, _ call: () throws -> Void) throws {
            var left = times
            try measure(name, while: { left > 0 }) {
                left -= 1
                try call()
            }
        }

        private func measure(_ name: String, while continues: () -> Bool, _ call: () throws -> Void) throws {
            guard only.isEmpty || only.contains(name) else { return }
            var (samples, held, ofProcessor): ([Double], UInt64, UInt64) = ([], 0, 0)
            _ = engine.takeLongestHold()
            while continues() {
                let start = Self.now
                try call()
                samples.append(Double(Self.now &- start) / 1e6)
                // What follows the call, as on the timer's thread, counts.
                usleep(2_000)
                let longest = engine.takeLongestHold()
                (held, ofProcessor) = (max(held, longest.elapsed), max(ofProcessor, longest.ofProcessor))
            }
            guard !samples.isEmpty else { return }
            samples.sort()
            let columns = [samples[samples.count / 2], samples[samples.count * 99 / 100], Double(held) / 1e6, Double(ofProcessor) / 1e6]
                .map(Self.decimal)
            print("\(depth) \(conversations) \(name) \(columns.joined(separator: " "))")
        }

        private static var now: UInt64 {
            var time = timespec()
            clock_gettime(CLOCK_MONOTONIC, &time)
            return UInt64(time.tv_sec) &* 1_000_000_000 &+ UInt64(time.tv_nsec)
        }

        private static func decimal(_ value: Double) -> String { String(Double(Int64(value * 1_000)) / 1_000) }

        private func send(_ outcome: Outcome, batch: Int = 0) throws {
            var limits = BatchLimits()
            limits.maxMessages = 1_000
            let transport = Transport.batch({ deliveries, _ in deliveries.map { _ in outcome } }, limits)
            try engine.setTransport(Registration(transport))
            _ = try engine.drainAndWait(nil, batch: batch, timeout: nil)
        }

        // MARK: Calls

        func measure() throws {
            try fill(depth)
            try reads()
            try changes()
            try drains()
            try many()
            try beside()
            try scheduled()
            try inputs()
            _ = try engine.close(timeout: 60_000)
        }

        private func reads() throws {
            for (name, filter) in [
                ("list", Filter(limit: 50)), ("list-newest", Filter(limit: 50, newestFirst: true)),
                ("list-by-time", Filter(limit: 50, order: .time)), ("list-of-conversation", Filter(conversation: "c0", limit: 50)),
                ("list-with-reasons", Filter(limit: 50, withReasons: true)), ("list-1000", Filter(limit: 1_000)),
            ] { try measure(name) { _ = try engine.list(filter) } }
            try measure("get") { _ = try engine.message(id: id) }
            try measure("explain") { _ = try engine.explain(id) }
            try measure("attempts") { _ = try engine.attempts(id) }
            try measure("count") { _ = try engine.counts(nil) }
            try measure("count-of-conversation") { _ = try engine.counts("c0") }
            try measure("count-waiting") { _ = try engine.waiting() }
            try measure("failure-groups") { _ = try engine.failureGroups(limit: 50) }
            try measure("conversations") { _ = try engine.conversations(before: 0, limit: 50) }
            try measure("conversations-by-time") { _ = try engine.conversationsByTime(before: nil, limit: 50) }
            try measure("conversation") { _ = try engine.conversation("c0") }
            try measure("state") { _ = try engine.state() }
            try measure("banner") { _ = try engine.banner(nil) }
            try measure("statistics") { _ = try engine.statistics() }
        }

        private func changes() throws {
            try measure("enqueue") { try withDraft("c0") { _ = try engine.enqueue(DraftBatch($0)) } }
            try measure("record") { try withDraft("c0") { _ = try engine.record($0, sender: "ben") } }
            try measure("edit") { try CallTimes.body.withUnsafeBytes { try engine.edit(id, MessageChange(body: $0)) } }
            try measure("set-title") { try engine.setTitle("title", of: "c0") }
            try measure("delete", 20) {
                let id = ids.removeLast()
                try engine.delete(id)
            }
        }

        private func reopen(_ change: (inout Options) -> Void = { _ in }) throws {
            _ = try engine.close(timeout: 60_000)
            var options = options
            change(&options)
            engine = try Engine.open(path: "\(folder)/queue.db", options: options)
        }

        /// Inputs for every conversation. In mode auto the scheduler knows each one after an attempt, which is retried later, so that nothing is
        /// sent afterwards.
        private func inputs() throws {
            try fill(depth)
            try reopen { $0.mode = .auto }
            try engine.setTransport(Registration(Transport.single { _, _ in .retry() }))
            usleep(UInt32(100_000 + 150 * conversations))
            try measure("pause", 5) { try engine.pause(nil) }
            try measure("resume", 5) {
                try engine.resume(nil)
                try engine.pause(nil)
            }
            try engine.resume(nil)
            try measure("connectivity", 5) {
                try engine.setNetwork(Network(connectivity: .offline))
                try engine.setNetwork(Network(connectivity: .online))
            }
            try measure("lifecycle", 5) {
                try engine.setLifecycle(isInBackground: true)
                try engine.setLifecycle(isInBackground: false)
            }
            try measure("set-transport", 5) { try engine.setTransport(Registration(Transport.single { _, _ in .retry() })) }
        }

        private func drains() throws {
            try engine.setTransport(Registration(Transport.single { _, _ in .sent }))
            try measure("drain-of-1", 5) { _ = try engine.drainAndWait(nil, batch: 1, timeout: nil) }
            try measure("drain-of-1000", 3) { try send(.sent, batch: 1_000) }
        }

        private func many() throws {
            try measure("backup", 1) { try LongReads(engine).backup(to: "\(folder)/copy.db") }
            unlink("\(folder)/copy.db")
            let part = min(depth, 100_000)
            try fill(part)
            try measure("drain-failing", 1) { try send(.reject(), batch: part / 2) }
            try measure("retry-all", 1) {
                try engine.pause(nil)
                _ = try engine.retryAll(nil)
                try engine.setTransport(nil)
                try engine.resume(nil)
            }
            try send(.reject(), batch: part / 2)
            try engine.setTransport(nil)
            try measure("clear-failed", 1) { _ = try engine.clearFailed(nil) }
            try measure("delete-conversation", 1) { _ = try engine.deleteConversation("c0") }
            try measure("clear", 1) { try engine.clear(nil) }
        }

        /// An enqueue each millisecond while a transport takes batches of 1,000 and answers a part of each, or all, with failures; also with
        /// `durable_outcomes`.
        private func beside() throws {
            for (name, outcomes, isDurable) in [
                ("enqueue-beside-batches", [Outcome.sent, .sent, .sent, .reject()], false),
                ("enqueue-beside-failures", [.reject()], false),
                ("enqueue-beside-durable-batches", [.sent, .sent, .sent, .reject()], true),
            ] where only.isEmpty || only.contains(name) {
                if isDurable { try reopen { $0.durableOutcomes = true } }
                try fill(30_000)
                var limits = BatchLimits()
                limits.maxMessages = 1_000
                let transport = Transport.batch({ deliveries, _ in deliveries.indices.map { outcomes[$0 % outcomes.count] } }, limits)
                try engine.setTransport(Registration(transport))
                nonisolated(unsafe) var isDraining = true
                let lock = Lock()
                try engine.drain(batch: 0, timeout: nil) { _ in lock.whileHeld { isDraining = false } }
                try measure(name, while: { lock.whileHeld { isDraining } }) {
                    try withDraft("live") { _ = try engine.enqueue(DraftBatch($0)) }
                }
                if isDurable { try reopen() }
            }
        }

        /// Drains of one message beside many that wait for their time.
        private func scheduled() throws {
            try engine.setTransport(Registration(Transport.single { _, _ in .sent }))
            try fill(min(depth, 200_000), notBefore: .max / 2)
            try measure("explain-scheduled") { _ = try engine.explain(ids[ids.count - 1]) }
            for (name, times) in [("first-drain-beside-scheduled", 1), ("drain-beside-scheduled", 5)] {
                try measure(name, times) {
                    try withDraft("other") { _ = try engine.enqueue(DraftBatch($0)) }
                    _ = try engine.drainAndWait(nil, batch: 0, timeout: nil)
                }
            }
        }
    }
}
