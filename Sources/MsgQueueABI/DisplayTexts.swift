import CMsgQueue
import Glibc
import MsgQueue

/// Returns texts as C strings with static lifetime, by number.
private func table<T: CaseIterable & RawRepresentable>(_ type: T.Type, _ text: (T) -> String) -> [UnsafePointer<CChar>?]
where T.RawValue == Int32 {
    var texts: [UnsafePointer<CChar>?] = []
    for value in T.allCases { texts.append(strdup(text(value)).map { UnsafePointer($0) }) }
    return texts
}

nonisolated(unsafe) private let labels = table(MessageStatus.self, Words.label)
nonisolated(unsafe) private let icons = table(MessageStatus.self, Words.icon)
nonisolated(unsafe) private let failures = table(FailureKind.self, Words.failure)
nonisolated(unsafe) private let connectivities = table(Connectivity.self, Words.label)
nonisolated(unsafe) private let empty = strdup("").map { UnsafePointer($0) }

/// Returns the text with this number; "" for an invalid number.
private func text(_ texts: [UnsafePointer<CChar>?], _ number: UInt32) -> UnsafePointer<CChar>? {
    let index = Int(number)
    return texts.indices.contains(index) ? texts[index] : empty
}

@_cdecl("msgq_status_label") @implementation
public func msgq_status_label(_ status: msgq_status) -> UnsafePointer<CChar>! { text(labels, status.rawValue) }

@_cdecl("msgq_status_icon") @implementation
public func msgq_status_icon(_ status: msgq_status) -> UnsafePointer<CChar>! { text(icons, status.rawValue) }

@_cdecl("msgq_failure_text") @implementation
public func msgq_failure_text(_ kind: msgq_failure_kind) -> UnsafePointer<CChar>! { text(failures, kind.rawValue) }

@_cdecl("msgq_connectivity_label") @implementation
public func msgq_connectivity_label(_ connectivity: msgq_connectivity) -> UnsafePointer<CChar>! {
    text(connectivities, connectivity.rawValue)
}

@_cdecl("msgq_banner") @implementation
public func msgq_banner(
    _ queue: OpaquePointer!, _ conversation: UnsafePointer<CChar>!, _ out: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>!
) -> msgq_result {
    give(out) { () throws(QueueError) in
        let engine = try Handles.engine(queue)
        return try engine.banner(try nameIfGiven(conversation, "conversation"))
    }
}

@_cdecl("msgq_relative_time") @implementation
public func msgq_relative_time(_ then_ms: Int64, _ now_ms: Int64, _ out: UnsafeMutablePointer<CChar>!, _ size: Int) -> msgq_result {
    status { () throws(QueueError) in
        let out = try require(out, "out")
        let text = Words.relativeTime(then_ms, now: now_ms)
        // In C the size has no sign.
        guard UInt(bitPattern: size) > text.utf8.count else {
            throw QueueError(.tooLarge, "size must be at least \(text.utf8.count + 1), got \(size)")
        }
        text.withCString { _ = memcpy(out, $0, text.utf8.count + 1) }
    }
}
