import CSQLite

/// The version of the SQLite that the process uses: that of the system, or the one that is linked into the library.
package enum SQLiteVersion {
    /// A C string with static lifetime, as "3.40.1".
    package static var pointer: UnsafePointer<CChar>? { sqlite3_libversion() }
    package static var text: String { pointer.map { String(cString: $0) } ?? "" }
}
