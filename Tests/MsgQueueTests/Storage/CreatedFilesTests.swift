import Foundation
import Testing

@testable import MsgQueue

/// What an opening that fails removes.
@Suite struct CreatedFilesTests {
    /// Another process may have used a new store before this one had the lock, and may have crashed.
    @Test(arguments: ["-wal", "-tail", "changed", "none"])
    func D7_a_new_store_is_removed_only_if_nobody_has_used_it(change: String) throws {
        let directory = TemporaryDirectory()
        let path = directory.store
        let image = try #require(try StoreCreation.create(path))
        if change.hasPrefix("-") { try Data("log".utf8).write(to: URL(fileURLWithPath: path + change)) }
        if change == "changed" {
            let file = try #require(FileHandle(forUpdatingAtPath: path))
            try file.seekToEnd()
            try file.write(contentsOf: Data([0]))
            try file.close()
        }
        let file = try #require(try StorePath.inspect(path))
        let lock = try StoreLock.acquire(path, file, shared: false)
        CreatedFiles(image: image, isLogNew: false).remove(lock)
        lock.release()
        #expect(FileManager.default.fileExists(atPath: path) == (change != "none"))
        if change.hasPrefix("-") { #expect(FileManager.default.fileExists(atPath: path + change)) }
    }
}
