import Glibc
import Testing

@testable import MsgQueue

/// Deleted messages are removed from the files.
@Suite struct ErasureTests {
    private let directory = TemporaryDirectory()

    /// Opens a file and keeps it open, because closing a file of a database that this process uses would release its locks.
    private final class OpenFile {
        private let descriptor: Int32
        init(_ path: String) { descriptor = open(path, O_RDONLY | O_CLOEXEC) }
        deinit { close(descriptor) }

        func contains(_ part: [UInt8]) -> Bool {
            guard descriptor >= 0 else { return false }
            var bytes: [UInt8] = []
            var buffer = [UInt8](repeating: 0, count: 1 << 16)
            while true {
                let count = pread(descriptor, &buffer, buffer.count, off_t(bytes.count))
                guard count > 0 else { return FileBytes.find(part, in: bytes) != nil }
                bytes += buffer[..<count]
            }
        }
    }

    private let secret = "the secret that must not be found again"

    private func isOnDisk(_ files: [OpenFile]) -> Bool { files.contains { $0.contains(Array(secret.utf8)) } }

    private enum Way: CaseIterable { case delete, clear, clearAll, editAndDelete }

    @Test(arguments: [1, 200])
    func R4_no_file_contains_the_text_before_an_edit(copies: Int) async throws {
        let path = directory.file("edit-\(copies).db")
        let queue = try MessageQueue(path: path, options: MessageQueue.Options(mode: .manual))
        let id = try queue.enqueue(String(repeating: secret + " ", count: copies), conversation: "ana")
        let files = [OpenFile(path), OpenFile(path + "-wal")]
        #expect(isOnDisk(files), "it was there")
        try queue.edit(id, body: "short")
        #expect(!isOnDisk(files))
        try await queue.close()
        #expect(!isOnDisk(files))
    }

    /// In a transaction the log cannot be checkpointed, as on a full disk.
    @Test func R4_text_that_could_not_be_erased_is_erased_by_the_next_checkpoint() throws {
        let bench = try StoreBench()
        let rows = try (0..<50).map { _ in try bench.add("ana", Array(secret.utf8)) }
        let files = [OpenFile(bench.directory.store), OpenFile(bench.directory.store + "-wal")]
        try bench.transaction { store in for row in rows { try store.messages.delete(row) } }
        try bench.store.begin()
        bench.store.log.scrub()
        bench.store.rollback()
        #expect(isOnDisk(files), "the log still contains it")
        #expect(bench.store.log.hasRemovedText, "the engine tries again")
        bench.store.log.checkpoint()
        #expect(!isOnDisk(files))
    }

    @Test(arguments: [1, 200])
    func R4_no_file_contains_a_deleted_message(copies: Int) async throws {
        for way in Way.allCases {
            let path = directory.file("\(way)-\(copies).db")
            let transport = RecordingTransport { $0.conversation == "ana" ? .reject(text: self.secret) : .sent }
            let queue = try MessageQueue(path: path, options: MessageQueue.Options(mode: .manual)) { await transport.send($0) }
            let text = String(repeating: secret + " ", count: copies)
            try queue.enqueue("others stay", conversation: "ben")
            let id = try queue.enqueue(text, conversation: "ana", metadata: ["secret": secret], id: secret)
            #expect(await eventually { (try? queue.message(id: id).status) == .failed })
            let files = [OpenFile(path), OpenFile(path + "-wal")]
            #expect(isOnDisk(files), "the text is in the file before")
            switch way {
            case .delete: try queue.delete(id)
            case .clear: try queue.clear(conversation: "ana")
            case .clearAll: try queue.clear()
            case .editAndDelete:
                try queue.edit(id, body: "short")
                try queue.delete(id)
            }
            #expect(!isOnDisk(files), "\(way)")
            try await queue.close()
            #expect(!isOnDisk(files))
            #expect(FileBytes.find(Array(secret.utf8), in: try FileBytes.read(path)) == nil)
        }
    }
}
