import Glibc
import Testing

@testable import MsgQueue

/// Log sinks. The process has one log, so one test runs at a time.
@Suite(.serialized) struct LogTests {
    private final class Lines: @unchecked Sendable {
        private let mutex = Mutex()
        private var got: [(LogLevel, String)] = []

        func take(_ level: LogLevel, _ text: String) { mutex.withLock { got.append((level, text)) } }
        var levels: [LogLevel] { mutex.withLock { got.map(\.0) } }
        var texts: [String] { mutex.withLock { got.map(\.1) } }
    }

    private final class Gate: @unchecked Sendable {
        private let mutex = Mutex()
        private var isOpen = false
        private var entered = 0

        func pass() {
            mutex.withLock { entered += 1 }
            while !mutex.withLock({ isOpen }) { usleep(1_000) }
        }

        func open() { mutex.withLock { isOpen = true } }
        var calls: Int { mutex.withLock { entered } }
    }

    private func discard(_ bodies: [String], in directory: TemporaryDirectory) async throws -> String {
        var options = MessageQueue.Options()
        options.mode = .manual
        options.direct = false
        options.exhausted = .discard
        let queue = try MessageQueue(path: directory.store, options: options) { _ in .retry(.server, text: "no \u{1b}[31m room") }
        for body in bodies { try queue.enqueue(body) }
        let report = try await queue.drain()
        #expect(report.discarded == bodies.count)
        try await queue.close()
        return directory.store
    }

    @Test func D13_the_sink_receives_level_and_text() async throws {
        let directory = TemporaryDirectory()
        let lines = Lines()
        MessageQueue.setLog { lines.take($0, $1) }
        defer { MessageQueue.setLog(nil) }
        let path = try await discard(["one", "two"], in: directory)
        #expect(await eventually { lines.texts.count == 2 })
        #expect(lines.levels == [.warning, .warning])
        for text in lines.texts {
            #expect(text.hasPrefix("\(path): message "))
            #expect(text.hasSuffix(": no \\x1b[31m room"))
        }
    }

    @Test func D13_every_level_has_a_name() async {
        let lines = Lines()
        MessageQueue.setLog { lines.take($0, $1) }
        defer { MessageQueue.setLog(nil) }
        Log.error("a")
        Log.warning("b")
        Log.info("c")
        #expect(await eventually { lines.levels == [.error, .warning, .info] })
        #expect(lines.texts == ["a", "b", "c"])
    }

    @Test func D13_a_sink_that_hangs_blocks_no_call_and_lost_lines_are_counted() async throws {
        let directory = TemporaryDirectory()
        let (lines, gate) = (Lines(), Gate())
        MessageQueue.setLog { level, text in
            gate.pass()
            lines.take(level, text)
        }
        defer { MessageQueue.setLog(nil) }
        Log.info("first")
        #expect(await eventually { gate.calls == 1 })
        // 256 lines are buffered, so a part of these is lost.
        for number in 0..<300 { Log.info("\(number)") }
        _ = try await discard(["hello"], in: directory)
        gate.open()
        #expect(await eventually { lines.texts.count == 258 })
        #expect(lines.texts.first == "first")
        let kept: [String] = (0..<256).map(String.init)
        #expect(Array(lines.texts.dropFirst().prefix(256)) == kept)
        #expect(lines.texts.last == "45 log lines were lost")
        Log.info("after")
        #expect(await eventually { lines.texts.last == "after" })
    }

    @Test func D13_a_sink_does_not_receive_its_own_lines() async {
        let lines = Lines()
        MessageQueue.setLog { level, text in
            lines.take(level, text)
            Log.info("again")
        }
        defer { MessageQueue.setLog(nil) }
        for number in 0..<3 { Log.info("\(number)") }
        #expect(await eventually { lines.texts.count == 3 })
        Log.info("end")
        #expect(await eventually { lines.texts.last == "end" })
        #expect(lines.texts == ["0", "1", "2", "end"])
    }

    /// An object that a sink owns may log in its deinit: a queue, for example, which closes there.
    private final class Farewell: Sendable {
        func touch() {}
        deinit { Log.info("farewell") }
    }

    @Test func D13_objects_of_a_sink_may_log_in_their_deinit() async {
        let (lines, gate) = (Lines(), Gate())
        func hold(in gate: Gate?) {
            let farewell = Farewell()
            MessageQueue.setLog { _, _ in
                farewell.touch()
                gate?.pass()
            }
        }
        defer { MessageQueue.setLog(nil) }
        // Inside setLog.
        hold(in: nil)
        MessageQueue.setLog { lines.take($0, $1) }
        #expect(await eventually { lines.texts == ["farewell"] })
        // After the last call, on the thread of the library; the line does not go to the next sink.
        hold(in: gate)
        Log.info("hold")
        #expect(await eventually { gate.calls == 1 })
        MessageQueue.setLog { lines.take($0, $1) }
        gate.open()
        Log.info("after")
        #expect(await eventually { lines.texts.last == "after" })
    }

    @Test func D13_a_sink_may_be_replaced_while_lines_arrive() async {
        let lines = Lines()
        for number in 0..<200 {
            MessageQueue.setLog { lines.take($0, $1) }
            Log.info("\(number)")
        }
        #expect(await eventually { lines.texts.count == 200 }, "no line is lost or repeated")
        #expect(Set(lines.texts).count == 200)
        MessageQueue.setLog(nil)
    }

    @Test func D13_the_buffer_reports_lost_lines_in_their_place() {
        var buffer = LogBuffer()
        #expect(buffer.isEmpty && buffer.first == nil && buffer.popFirst() == nil)
        for number in 0..<(LogBuffer.capacity + 1) { buffer.append(LogLine(level: .info, text: "\(number)")) }
        buffer.append(LogLine(level: .error, text: "lost"))
        #expect(buffer.popFirst()?.text == "0")
        buffer.append(LogLine(level: .error, text: "kept"))
        var texts: [String] = []
        while let line = buffer.popFirst() { texts.append(line.text) }
        #expect(texts.suffix(3) == ["255", "2 log lines were lost", "kept"])
        #expect(buffer.isEmpty)
    }

    @Test func M15_debug_lines_have_room_of_their_own_in_the_buffer() {
        var buffer = LogBuffer()
        for number in 0..<(LogBuffer.capacity + 44) { buffer.append(LogLine(level: .debug, text: "\(number)")) }
        for number in 0..<LogBuffer.capacity { buffer.append(LogLine(level: .error, text: "error \(number)")) }
        buffer.append(LogLine(level: .debug, text: "lost"))
        buffer.append(LogLine(level: .error, text: "lost"))
        var lines: [LogLine] = []
        while let line = buffer.popFirst() { lines.append(line) }
        #expect(lines.count == 2 * LogBuffer.capacity + 2)
        #expect(lines[LogBuffer.capacity] == LogLine(level: .debug, text: "44 log lines were lost"))
        #expect(lines[LogBuffer.capacity + 1].text == "error 0")
        #expect(lines.suffix(2).map(\.text) == ["error 255", "2 log lines were lost"])
        #expect(lines.last?.level == .warning)
        // All of the room is free again.
        for _ in 0..<LogBuffer.capacity { buffer.append(LogLine(level: .debug, text: "")) }
        lines = []
        while let line = buffer.popFirst() { lines.append(line) }
        #expect(lines.count == LogBuffer.capacity && buffer.isEmpty)
    }

    @Test func M15_a_line_is_made_only_at_its_level() {
        var made = 0
        func text() -> String {
            made += 1
            return "line"
        }
        MessageQueue.setLog { _, _ in }
        defer {
            MessageQueue.setLogLevel(.info)
            MessageQueue.setLog(nil)
        }
        Log.debug(text())
        #expect(made == 0)
        MessageQueue.setLogLevel(.debug)
        Log.debug(text())
        #expect(made == 1)
        MessageQueue.setLogLevel(.error)
        Log.warning(text())
        Log.info(text())
        #expect(made == 1)
        Log.error(text())
        #expect(made == 2)
    }

    @Test func M15_the_level_changes_while_lines_are_made() async {
        let lines = Lines()
        MessageQueue.setLog { lines.take($0, $1) }
        defer {
            MessageQueue.setLogLevel(.info)
            MessageQueue.setLog(nil)
        }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { for number in 0..<1000 { MessageQueue.setLogLevel(number % 2 == 0 ? .debug : .error) } }
            group.addTask { for _ in 0..<1000 { Log.debug("debug") } }
        }
        MessageQueue.setLogLevel(.debug)
        Log.debug("last")
        #expect(await eventually { lines.texts.last == "last" })
    }

    @Test func M15_each_step_of_a_message_is_one_line_without_its_body() async throws {
        let directory = TemporaryDirectory()
        let lines = Lines()
        MessageQueue.setLog { lines.take($0, $1) }
        MessageQueue.setLogLevel(.debug)
        defer {
            MessageQueue.setLogLevel(.info)
            MessageQueue.setLog(nil)
        }
        var options = MessageQueue.Options()
        options.mode = .manual
        options.direct = false
        let queue = try MessageQueue(path: directory.store, options: options) { delivery in
            delivery.id == "a" ? .sent : .reject(.rejected, code: 400, text: "too old")
        }
        for id in ["a", "b"] {
            try queue.enqueue(.init("s3cret", conversation: "ana", metadata: ["key": "s3cret"], id: id))
        }
        _ = try await queue.drain()
        try await queue.close()
        let expected = [
            "message a: enqueued in conversation \"ana\", 6 bytes", "message b: enqueued in conversation \"ana\", 6 bytes",
            "drain started: 2 queued, 0 being sent, 0 failed", "message a: attempt 1 begins", "message a: attempt 1 ended: sent",
            "message b: attempt 1 begins", "message b: attempt 1 ended: failed (rejected, code 400): too old",
            "drain finished (empty): 1 sent, 1 failed, 0 discarded, 0 put back, 0 remaining",
        ]
        #expect(await eventually { lines.texts.count == expected.count })
        #expect(lines.texts == expected.map { "\(directory.store): \($0)" })
        #expect(Set(lines.levels) == [.debug])
    }
}
