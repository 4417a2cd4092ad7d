import CSQLite
import Glibc

/// Failed reads. SQLite reports some of them as damage, but keeps the error of the system of each file until a later read of the file ends
/// beyond its end.
extension Database {
    /// The error of the last read of the database or its log that failed since `forgetReadErrors`, or of a write; nil: none.
    private var readError: Int32? { files.lazy.compactMap(\.lastError).first }

    func forgetReadErrors() { for file in files { file.readBeyondEnd() } }

    /// Reads with `body`. If it finds damage, it reads again, from the files: a read may have failed once. Damage that a failed read
    /// explains says nothing about the file.
    func readingTwice<T>(_ body: () throws(QueueError) -> T) throws(QueueError) -> T {
        do throws(QueueError) { return try body() } catch {
            guard error.code == .corrupt else { throw error }
            dropPageCache()
            do throws(QueueError) { return try body() } catch { throw withoutReadError(error) }
        }
    }

    /// Returns the error of a second read.
    func withoutReadError(_ error: QueueError) -> QueueError {
        guard error.code == .corrupt, let readError else { return error }
        return QueueError(.storage, "\(error.detail): a read failed: \(Posix.describe(readError))")
    }

    /// The database and its log, if SQLite has them open.
    private var files: [OpenFile] {
        [SQLITE_FCNTL_FILE_POINTER, SQLITE_FCNTL_JOURNAL_POINTER].compactMap { OpenFile(handle, $0) }
    }
}
