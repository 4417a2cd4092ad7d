import MsgQueue

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

extension MessageQueue.Timestamp {
    /// Creates the timestamp of a date, rounded to the nearest millisecond.
    public init(_ date: Date) { self.init(secondsSince1970: date.timeIntervalSince1970) }
}

extension Date {
    /// Creates the date of a timestamp.
    public init(_ timestamp: MessageQueue.Timestamp) { self.init(timeIntervalSince1970: timestamp.secondsSince1970) }
}
