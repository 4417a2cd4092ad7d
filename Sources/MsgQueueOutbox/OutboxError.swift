import CSQLite
import MsgQueue

extension Outbox {
    /// The error of a call of an outbox.
    public struct Error: Swift.Error, Sendable, Hashable, CustomStringConvertible {
        /// The kind of error. Of errors of the database: `busy` (another connection holds a lock), `permission` (read-only), `storage`,
        /// `corrupt`, `tooLarge`, `conflict` (a constraint or a trigger of the program, an interrupt), and `notFound` if the tables are missing.
        public let code: MessageQueue.Error.Code
        /// One sentence for developers.
        public let detail: String
        /// The extended result code of SQLite, unchanged; nil: SQLite reported no error.
        public let databaseCode: Int32?

        /// The code and the detail.
        public var description: String { "\(code): \(detail)" }

        init(_ code: MessageQueue.Error.Code, _ detail: String, databaseCode: Int32? = nil) {
            (self.code, self.detail, self.databaseCode) = (code, detail, databaseCode)
        }

        init(_ error: MessageQueue.Error) { self.init(error.code, error.detail) }

        /// An error of SQLite.
        init(database code: Int32, _ text: String) {
            let isMissing = code == SQLITE_ERROR && text.hasPrefix("no such table: ")
            self.init(isMissing ? .notFound : Self.code(code & 0xff), "the database: \(text) (code \(code))", databaseCode: code)
        }

        private static func code(_ primary: Int32) -> MessageQueue.Error.Code {
            switch primary {
            case SQLITE_BUSY, SQLITE_LOCKED: .busy
            case SQLITE_PERM, SQLITE_READONLY, SQLITE_AUTH: .permission
            // SQLITE_ERROR: a table of the same name with other columns.
            case SQLITE_CORRUPT, SQLITE_NOTADB, SQLITE_ERROR: .corrupt
            case SQLITE_CONSTRAINT, SQLITE_INTERRUPT, SQLITE_ABORT: .conflict
            case SQLITE_TOOBIG: .tooLarge
            case SQLITE_MISUSE: .invalid
            default: .storage
            }
        }

        /// This error, and another one that followed from it.
        func followed(by other: Error) -> Error { Error(code, "\(detail); then \(other.detail)", databaseCode: databaseCode) }
    }
}

/// Calls the queue.
func queueCall<T>(_ body: () throws(MessageQueue.Error) -> T) throws(Outbox.Error) -> T {
    do throws(MessageQueue.Error) { return try body() } catch { throw Outbox.Error(error) }
}
