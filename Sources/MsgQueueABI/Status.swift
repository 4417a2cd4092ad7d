import CMsgQueue
import Glibc
import MsgQueue

/// Runs a call and converts an error to a result, with its detail for this thread.
func status(_ body: () throws(QueueError) -> Void) -> msgq_result {
    do throws(QueueError) {
        try body()
        return MSGQ_OK
    } catch {
        let context = ThreadContext.current
        free(context.detail)
        context.detail = strdup(error.detail)
        return msgq_result(UInt32(bitPattern: error.code.rawValue))
    }
}

/// Runs a call of a queue.
func status(_ queue: OpaquePointer?, _ body: (Engine) throws(QueueError) -> Void) -> msgq_result {
    status { () throws(QueueError) in try body(try Handles.engine(queue)) }
}

/// Runs a call that returns a number, which `count` (NULL: nothing) gets.
func status(
    _ queue: OpaquePointer?, _ count: UnsafeMutablePointer<UInt64>?, _ body: (Engine) throws(QueueError) -> some BinaryInteger
) -> msgq_result {
    status(queue) { engine throws(QueueError) in
        let number = try body(engine)
        if let count { count.pointee = UInt64(clamping: number) }
    }
}

/// Throws if the pointer is NULL.
func require<T>(_ pointer: T?, _ name: StaticString) throws(QueueError) -> T {
    guard let pointer else { throw QueueError(.invalid, "\(name) is NULL") }
    return pointer
}

/// Reads a string of the caller; throws `invalid` if it is not UTF-8.
func text(_ pointer: UnsafePointer<CChar>, _ name: StaticString) throws(QueueError) -> String {
    guard let text = String(validatingCString: pointer) else { throw QueueError(.invalid, "\(name) is not UTF-8") }
    return text
}

/// Reads an id or a name of a conversation, and at most as many bytes as it may have.
func name(_ pointer: UnsafePointer<CChar>, _ name: StaticString) throws(QueueError) -> String {
    guard strnlen(pointer, Int(MSGQ_ID_SIZE)) < Int(MSGQ_ID_SIZE) else {
        throw QueueError(.invalid, "\(name) has more than \(MSGQ_ID_SIZE - 1) bytes")
    }
    return try text(pointer, name)
}

/// Returns nil for NULL.
func nameIfGiven(_ pointer: UnsafePointer<CChar>?, _ name: StaticString) throws(QueueError) -> String? {
    try pointer.map { pointer throws(QueueError) in try MsgQueueABI.name(pointer, name) }
}

/// Converts a timeout of C, where a negative number means none.
func timeout(_ milliseconds: Int64) -> Int64? { milliseconds < 0 ? nil : milliseconds }

private let resultNames: [StaticString] = [
    "MSGQ_OK", "MSGQ_INVALID", "MSGQ_NOT_FOUND", "MSGQ_DUPLICATE", "MSGQ_CONFLICT", "MSGQ_BUSY", "MSGQ_FULL", "MSGQ_TOO_LARGE",
    "MSGQ_LOCKED", "MSGQ_CLOSED", "MSGQ_FORKED", "MSGQ_CORRUPT", "MSGQ_STORAGE", "MSGQ_UNKNOWN", "MSGQ_TOO_NEW", "MSGQ_PERMISSION",
    "MSGQ_TIMEOUT", "MSGQ_NO_TRANSPORT", "MSGQ_INTERNAL",
]

/// Returns a literal as a C string with static lifetime.
private func borrowed(_ literal: StaticString) -> UnsafePointer<CChar> {
    UnsafeRawPointer(literal.utf8Start).assumingMemoryBound(to: CChar.self)
}

@_cdecl("msgq_result_name") @implementation
public func msgq_result_name(_ result: msgq_result) -> UnsafePointer<CChar>! {
    let index = Int(result.rawValue)
    return borrowed(resultNames.indices.contains(index) ? resultNames[index] : "MSGQ_?")
}

@_cdecl("msgq_error_detail") @implementation
public func msgq_error_detail() -> UnsafePointer<CChar>! {
    ThreadContext.current.detail.map { UnsafePointer($0) } ?? borrowed("")
}

@_cdecl("msgq_version") @implementation
public func msgq_version() -> UnsafePointer<CChar>! { borrowed("0.2.0") }

@_cdecl("msgq_sqlite_version") @implementation
public func msgq_sqlite_version() -> UnsafePointer<CChar>! { SQLiteVersion.pointer ?? borrowed("") }

@_cdecl("msgq_version_number") @implementation
public func msgq_version_number() -> UInt32 {
    UInt32(MSGQ_VERSION_MAJOR * 10_000 + MSGQ_VERSION_MINOR * 100 + MSGQ_VERSION_PATCH)
}
