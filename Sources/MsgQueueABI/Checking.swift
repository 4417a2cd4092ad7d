import CMsgQueue
import MsgQueue

@_cdecl("msgq_check") @implementation
public func msgq_check(_ path: UnsafePointer<CChar>!, _ out: UnsafeMutablePointer<msgq_check_report>!) -> msgq_result {
    status { () throws(QueueError) in
        let out = try checked(try require(out, "out"))
        write(try Engine.check(try text(try require(path, "path"), "path")), to: out)
    }
}

@_cdecl("msgq_salvage") @implementation
public func msgq_salvage(
    _ from: UnsafePointer<CChar>!, _ to: UnsafePointer<CChar>!, _ out: UnsafeMutablePointer<msgq_check_report>!
) -> msgq_result {
    status { () throws(QueueError) in
        let out = try out.map { pointer throws(QueueError) in try checked(pointer) }
        let source = try text(try require(from, "from"), "from")
        let report = try Engine.salvage(from: source, to: try text(try require(to, "to"), "to"))
        if let out { write(report, to: out) }
    }
}

private func checked(_ out: UnsafeMutablePointer<msgq_check_report>) throws(QueueError) -> UnsafeMutablePointer<msgq_check_report> {
    try Structs.check(out, msgq_check_report.self, "msgq_check_report")
    return out
}

private func write(_ report: CheckReport, to out: UnsafeMutablePointer<msgq_check_report>) {
    var result = msgq_check_report()
    result.sound = report.isSound
    result.whole = UInt64(clamping: report.whole)
    result.damaged = UInt64(clamping: report.damaged)
    result.missing = UInt64(clamping: report.missing)
    result.first_missing = UInt64(clamping: report.firstMissing ?? 0)
    result.last_missing = UInt64(clamping: report.lastMissing ?? 0)
    copy(report.text, to: &result.text)
    Structs.write(result, to: out)
}
