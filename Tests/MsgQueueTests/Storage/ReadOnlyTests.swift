import Glibc
import Testing

@testable import MsgQueue

/// Queues that are opened with `readOnly`.
@Suite struct ReadOnlyTests {
    private var readOnly: MessageQueue.Options {
        var options = MessageQueue.Options(mode: .manual)
        options.readOnly = true
        return options
    }

    private func files(_ directory: TemporaryDirectory) throws -> [String: [UInt8]] {
        var files: [String: [UInt8]] = [:]
        for name in directory.names { files[name] = try FileBytes.read(directory.file(name)) }
        return files
    }

    @Test(arguments: [true, false])
    func D16_a_store_is_read_and_not_changed(clean: Bool) throws {
        let bench = try StoreBench()
        for number in 1...9 { try bench.add("ana", Array("message \(number)".utf8), id: "m\(number)") }
        try bench.transaction { try $0.attempts.begin(attempt: 1, of: 3, at: 5) }
        bench.close(clean: clean)
        let before = try files(bench.directory)
        let queue = try MessageQueue(path: bench.directory.store, options: readOnly)
        let other = try MessageQueue(path: bench.directory.store, options: readOnly)
        #expect(try queue.list().map(\.id) == (1...9).map { "m\($0)" })
        #expect(try other.message(id: "m2").text == "message 2")
        #expect(try queue.message(id: "m3").status == .queued)
        #expect(try queue.attempts("m3").map(\.outcome) == [.unknown])
        #expect(try queue.counts(conversation: "ana").queued == 9)
        #expect(try queue.conversations().map(\.name) == ["ana"])
        #expect(try queue.explain("m1").reason == .noTransport)
        #expect(try queue.banner() == "9 messages queued.")
        try queue.setConnectivity(.offline)
        #expect(refusal { _ = try MessageQueue(path: bench.directory.store) } == .locked)
        let changes: [() throws -> Void] = [
            { try queue.enqueue("x") }, { try queue.record(MessageQueue.Draft("x"), sender: "Ana") }, { try queue.edit("m1", body: "x") },
            { try queue.edit("m1", body: "x", ifEdited: nil) }, { try queue.update("m1", body: "x") },
            { try queue.delete("m1") }, { try queue.retry("m1") }, { try queue.sendNow("m1") }, { try queue.mark("m1", as: .read) },
            { try queue.record([MessageQueue.RecordedDraft(.init("x"), sender: nil)]) }, { try queue.mark(ids: ["m1"], as: .read) },
            { try queue.mark(upTo: "m1", as: .read) },
            { try queue.clear() }, { try queue.pause() }, { try queue.resume() }, { try queue.setTransport { _ in .sent } },
            { try queue.setTransport(nil) },
        ]
        for change in changes { #expect(refusal(change) == .permission) }
        #expect(try files(bench.directory) == before)
        let target = TemporaryDirectory()
        try queue.backup(to: target.store)
        try queue.syncClose()
        try other.syncClose()
        #expect(try files(bench.directory) == before)
        let copy = try MessageQueue(path: target.store, options: MessageQueue.Options(mode: .manual))
        #expect(try copy.counts().queued == 9)
        try copy.syncClose()
    }

    @Test func D16_a_drain_and_a_transport_are_refused() async throws {
        let bench = try StoreBench()
        try bench.add()
        bench.close()
        #expect(refusal { _ = try MessageQueue(path: bench.directory.store, options: readOnly) { _ in .sent } } == .permission)
        let queue = try MessageQueue(path: bench.directory.store, options: readOnly)
        #expect(await refusal { _ = try await queue.drain() } == .permission)
        try await queue.close()
    }

    @Test func D16_a_missing_file_is_not_created() throws {
        let directory = TemporaryDirectory()
        #expect(refusal { _ = try MessageQueue(path: directory.store, options: readOnly) } == .invalid)
        #expect(directory.names.isEmpty)
    }
}
