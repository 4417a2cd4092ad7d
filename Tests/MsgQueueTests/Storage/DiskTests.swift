import Glibc
import Testing

@testable import MsgQueue

/// The promises about the disk, through the Swift API. (The C tests have the details.)
@Suite struct DiskTests {
    private let directory = TemporaryDirectory()
    private let manual = MessageQueue.Options(mode: .manual)

    private func files() throws -> [String: [UInt8]] {
        var files: [String: [UInt8]] = [:]
        for name in directory.names { files[name] = try FileBytes.read(directory.file(name)) }
        return files
    }

    /// Makes a closed store with the messages m1 to m3.
    private func make(_ path: String? = nil) throws {
        let queue = try MessageQueue(path: path ?? directory.store, options: manual)
        for number in 1...3 { try queue.enqueue("body \(number)", conversation: "ana", id: "m\(number)") }
        try queue.syncClose()
    }

    /// Copies the files of an open queue, as a crash would leave them.
    private func crash(to target: TemporaryDirectory) throws {
        let queue = try MessageQueue(path: directory.store, options: manual)
        // With the first change of a session the log is checkpointed; the second change is only in the log.
        for id in ["m4", "m5"] { try queue.enqueue("after the opening", conversation: "ben", id: id) }
        for (name, bytes) in try files() { try place(bytes, at: target.file(name)) }
        try queue.syncClose()
    }

    private func place(_ bytes: [UInt8], at path: String) throws {
        let descriptor = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0o600)
        #expect(descriptor >= 0)
        Glibc.close(descriptor)
        try FileBytes.write(bytes, to: path)
    }

    private func error(_ body: () throws -> Void) -> QueueError? {
        do {
            try body()
            return nil
        } catch { return error as? QueueError }
    }

    @Test func D1_a_second_owner_is_refused_and_reading_the_file_does_not_release_the_lock() throws {
        let queue = try MessageQueue(path: directory.store, options: manual)
        try queue.enqueue("x", id: "m1")
        _ = try files()
        let refused = error { _ = try MessageQueue(path: directory.store) }
        #expect(refused?.code == .locked)
        #expect(try queue.message(id: "m1").status == .queued)
        try queue.syncClose()
    }

    @Test func D2_a_refused_open_changes_no_byte() throws {
        try make()
        var bytes = try FileBytes.read(directory.store)
        for index in 8192..<bytes.count { bytes[index] = 0x55 }
        try FileBytes.write(bytes, to: directory.store)
        let before = try files()
        #expect(refusal { _ = try MessageQueue(path: directory.store) } == .corrupt)
        #expect(try files() == before)
    }

    @Test func D3_a_log_of_another_store_is_refused_with_instructions() throws {
        try make()
        let other = TemporaryDirectory()
        try crash(to: other)
        let log = try FileBytes.read(other.file("outbox.db-wal"))
        #expect(!log.isEmpty)
        let mine = TemporaryDirectory()
        try make(mine.store)
        try place(log, at: mine.file("outbox.db-wal"))
        let refused = error { _ = try MessageQueue(path: mine.store) }
        #expect(refused?.code == .corrupt)
        #expect(refused?.detail.contains("move") ?? false)
        #expect(try FileBytes.read(mine.file("outbox.db-wal")) == log)
    }

    @Test func D4_a_store_of_a_later_version_is_refused_unchanged() throws {
        try make()
        do { try PlainDatabase(directory.store).rows("PRAGMA user_version = 5") }
        let before = try files()
        #expect(refusal { _ = try MessageQueue(path: directory.store) } == .tooNew)
        #expect(try files() == before)
    }

    @Test func D5_D6_confirmed_changes_survive_a_crash() throws {
        try make()
        let copy = TemporaryDirectory()
        try crash(to: copy)
        let queue = try MessageQueue(path: copy.store, options: manual)
        #expect(try queue.list().map(\.id) == ["m1", "m2", "m3", "m4", "m5"])
        try queue.syncClose()
    }

    @Test func D7_a_lost_log_is_reported_and_can_be_refused() throws {
        try make()
        let copy = TemporaryDirectory()
        try crash(to: copy)
        #expect(unlink(copy.file("outbox.db-wal")) == 0)
        var strict = manual
        strict.refuseLostTail = true
        let refused = error { _ = try MessageQueue(path: copy.store, options: strict) }
        #expect(refused?.code == .corrupt)
        #expect(refused?.detail.contains("missing") ?? false)
        let queue = try MessageQueue(path: copy.store, options: manual)
        #expect(try queue.list().map(\.id) == ["m1", "m2", "m3"])
        try queue.syncClose()
    }

    @Test func D8_a_store_is_unharmed_when_its_directory_is_temporarily_missing() throws {
        try make()
        let hidden = directory.path + "-hidden"
        #expect(rename(directory.path, hidden) == 0)
        #expect(refusal { _ = try MessageQueue(path: directory.store) } != nil)
        #expect(rename(hidden, directory.path) == 0)
        let queue = try MessageQueue(path: directory.store, options: manual)
        #expect(try queue.list().count == 3)
        try queue.syncClose()
    }

    @Test func D9_with_a_file_size_limit_enqueue_is_refused_and_delete_works() throws {
        let queue = try MessageQueue(path: directory.store, options: manual)
        try queue.enqueue("kept", id: "m1")
        signal(SIGXFSZ, SIG_IGN)
        var before = rlimit()
        getrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &before)
        var small = rlimit(rlim_cur: 4096, rlim_max: before.rlim_max)
        setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &small)
        let refused = refusal { try queue.enqueue(MessageQueue.Draft([UInt8](repeating: 1, count: 500_000), id: "m2")) }
        let listed = try queue.list().map(\.id)
        setrlimit(__rlimit_resource_t(RLIMIT_FSIZE.rawValue), &before)
        #expect(refused == .storage)
        #expect(listed == ["m1"])
        try queue.syncClose()
        let again = try MessageQueue(path: directory.store, options: manual)
        #expect(try again.list().map(\.id) == ["m1"])
        try again.delete("m1")
        try again.syncClose()
    }

    @Test func D10_a_damaged_message_is_listed_as_failed_and_the_others_are_whole() throws {
        try make()
        do { try PlainDatabase(directory.store).rows("UPDATE message SET body = x'00' WHERE id = 'm2'") }
        let queue = try MessageQueue(path: directory.store, options: manual)
        let messages = try queue.list()
        #expect(messages.map(\.id) == ["m1", "m2", "m3"])
        #expect(messages.map(\.status) == [.queued, .failed, .queued])
        #expect(messages[2].text == "body 3")
        try queue.delete("m2")
        #expect(try queue.counts().queued == 2)
        #expect(try queue.counts().failed == 0)
        try queue.syncClose()
    }

    @Test func D11_clear_removes_the_messages_from_the_queue_and_the_files() throws {
        let queue = try MessageQueue(path: directory.store, options: manual)
        try queue.enqueue("a secret text", conversation: "ana")
        try queue.clear()
        #expect(try queue.list().isEmpty)
        #expect(try queue.counts() == MessageQueue.Counts(MsgQueue.Counts()))
        for bytes in try files().values { #expect(FileBytes.find(Array("a secret text".utf8), in: bytes) == nil) }
        try queue.syncClose()
    }

    @Test func D12_links_and_special_files_are_refused_with_the_reason() throws {
        try make()
        let before = try files()
        let symbolic = directory.file("symbolic.db")
        #expect(symlink(directory.store, symbolic) == 0)
        #expect(error { _ = try MessageQueue(path: symbolic) }?.detail.contains("symbolic link") ?? false)
        #expect(unlink(symbolic) == 0)
        let hard = directory.file("hard.db")
        #expect(link(directory.store, hard) == 0)
        #expect(error { _ = try MessageQueue(path: hard) }?.detail.contains("names") ?? false)
        #expect(unlink(hard) == 0)
        #expect(refusal { _ = try MessageQueue(path: directory.path) } != nil)
        #expect(refusal { _ = try MessageQueue(path: ":memory:") } == .invalid)
        #expect(try files() == before)
    }

    @Test func D17_a_backup_can_replace_the_store() throws {
        let queue = try MessageQueue(path: directory.store, options: manual)
        try queue.enqueue("kept", id: "m1")
        let backup = directory.file("backup.db")
        try queue.backup(to: backup)
        try queue.enqueue("after the backup", id: "m2")
        try queue.syncClose()
        #expect(rename(backup, directory.store) == 0)
        let restored = try MessageQueue(path: directory.store, options: manual)
        #expect(try restored.list().map(\.id) == ["m1"])
        try restored.syncClose()
    }
}
