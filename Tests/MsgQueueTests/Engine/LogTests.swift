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
        #expect(lines.texts.dropFirst().prefix(256) == ArraySlice((0..<256).map(String.init)))
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
        #expect(buffer.popFirst()?.text == "0")
        // There is space for one line, but not for one and the note before it.
        buffer.append(LogLine(level: .info, text: "lost"))
        #expect(buffer.popFirst()?.text == "1")
        buffer.append(LogLine(level: .error, text: "kept"))
        var texts: [String] = []
        while let line = buffer.popFirst() { texts.append(line.text) }
        #expect(texts.suffix(3) == ["255", "2 log lines were lost", "kept"])
        #expect(buffer.isEmpty)
    }
}
