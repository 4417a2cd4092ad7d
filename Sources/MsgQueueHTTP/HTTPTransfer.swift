internal import CCurl
import MsgQueue

/// One request and its answer. Only the thread of its ``HTTPTransfers`` touches what is not a constant.
final class HTTPTransfer: @unchecked Sendable {
    /// Bytes of an answer's body that are read, those that are kept, and bytes of its header.
    private static let (maxAnswer, maxExcerpt, maxHeader) = (1 << 20, 4_096, 1 << 18)
    /// Answers with a status 1xx that may precede the final one.
    private static let maxInterim = 100

    let done = Once<HTTPResult>()
    private let address: HTTPAddress
    private let route: HTTPRoute
    private let headers: [(name: String, value: String)]
    private let deadline: ContinuousClock.Instant
    /// libcurl reads the body while the request is sent, and writes its description of an error.
    private let body: UnsafeMutableBufferPointer<UInt8>
    private let errorText = UnsafeMutableBufferPointer<CChar>.allocate(capacity: Int(CURL_ERROR_SIZE))
    private(set) var handle: UnsafeMutableRawPointer?
    private var list: UnsafeMutablePointer<curl_slist>?
    private var result = HTTPResult()
    private var (received, headerSize, interim) = (0, 0, 0)
    /// The first line of a header was read, and not its last one.
    private var isInHeader = false
    /// The header of the final answer was read.
    private var isHeaderWhole = false
    /// The status and the value of `Content-Length` in the header that is read.
    private var (status, bodySize): (Int?, Int64?) = (nil, nil)
    /// Why the transfer was ended from here.
    private var reason: HTTPResult.Ending?

    init(
        to address: HTTPAddress, by route: HTTPRoute, headers: [(name: String, value: String)], body: [UInt8],
        until deadline: ContinuousClock.Instant
    ) {
        (self.address, self.route, self.headers, self.deadline) = (address, route, headers, deadline)
        self.body = .allocate(capacity: body.count)
        _ = self.body.initialize(from: body)
        errorText.initialize(repeating: 0)
    }

    deinit {
        curl_easy_cleanup(handle)
        curl_slist_free_all(list)
        body.deallocate()
        errorText.deallocate()
    }

    /// Makes the handle. Returns false, with the result set, if the request cannot begin.
    func prepare() -> Bool {
        let left = deadline - ContinuousClock.now
        guard left > .zero else {
            finish(CURLE_OPERATION_TIMEDOUT, isSent: false)
            return false
        }
        handle = curl_easy_init()
        guard let handle else {
            finish(CURLE_OUT_OF_MEMORY, isSent: false)
            return false
        }
        let code = configure(handle, left: left)
        guard code == CURLE_OK else {
            finish(code, isSent: false)
            return false
        }
        return true
    }

    private func configure(_ handle: UnsafeMutableRawPointer, left: Duration) -> CURLcode {
        let (seconds, attoseconds) = left.components
        let milliseconds = min(seconds, 7 * 86_400) * 1_000 + attoseconds / 1_000_000_000_000_000
        var code = CURLE_OK
        func set(_ result: CURLcode) { if code == CURLE_OK { code = result } }
        func set(_ option: CURLoption, _ value: Int) { set(ccurl_set_number(handle, option, Int64(value))) }
        set(ccurl_set_text(handle, CURLOPT_URL, address.text))
        set(CURLOPT_PATH_AS_IS, 1)
        set(CURLOPT_POST, 1)
        set(CURLOPT_POSTFIELDSIZE_LARGE, body.count)
        set(ccurl_set_pointer(handle, CURLOPT_POSTFIELDS, body.baseAddress))
        set(ccurl_set_number(handle, CURLOPT_TIMEOUT_MS, max(milliseconds, 1)))
        // Signals and proxies of the environment belong to the host; an empty text means no proxy, and that all servers need it.
        set(CURLOPT_NOSIGNAL, 1)
        set(ccurl_set_text(handle, CURLOPT_PROXY, route.proxy?.url ?? ""))
        set(ccurl_set_text(handle, CURLOPT_NOPROXY, ""))
        set(ccurl_set_number(handle, CURLOPT_PROXYAUTH, ccurl_basic))
        set(CURLOPT_SUPPRESS_CONNECT_HEADERS, 1)
        // A request that libcurl sends again on another connection would be a second one in the same attempt. It does that after a reused
        // connection was cut, and after some answers of HTTP/2.
        set(CURLOPT_FRESH_CONNECT, 1)
        set(CURLOPT_FORBID_REUSE, 1)
        set(CURLOPT_HTTP_VERSION, Int(CURL_HTTP_VERSION_1_1))
        set(CURLOPT_FOLLOWLOCATION, 0)
        set(CURLOPT_SSL_VERIFYPEER, 1)
        set(CURLOPT_SSL_VERIFYHOST, 2)
        if let authorities = route.authorities { set(ccurl_set_text(handle, CURLOPT_CAINFO, authorities)) }
        if let certificate = route.certificate {
            set(ccurl_set_text(handle, CURLOPT_SSLCERT, certificate.path))
            if let path = certificate.keyPath { set(ccurl_set_text(handle, CURLOPT_SSLKEY, path)) }
            // Without a password OpenSSL would ask for it on the terminal.
            set(ccurl_set_text(handle, CURLOPT_KEYPASSWD, certificate.password ?? ""))
        }
        ccurl_set_quick_exit(handle)
        set(ccurl_set_pointer(handle, CURLOPT_ERRORBUFFER, errorText.baseAddress))
        let me = UnsafeRawPointer(Unmanaged.passUnretained(self).toOpaque())
        set(ccurl_set_pointer(handle, CURLOPT_PRIVATE, me))
        set(ccurl_set_pointer(handle, CURLOPT_WRITEDATA, me))
        set(ccurl_set_pointer(handle, CURLOPT_HEADERDATA, me))
        set(ccurl_set_receiver(handle, CURLOPT_WRITEFUNCTION, { HTTPTransfer.of($3)?.receive($0, $1, $2) ?? 0 }))
        set(ccurl_set_receiver(handle, CURLOPT_HEADERFUNCTION, { HTTPTransfer.of($3)?.receiveHeader($0, $1, $2) ?? 0 }))
        // libcurl sends "Expect: 100-continue" before long bodies unless that is turned off; a header without a value ends with a semicolon.
        for line in ["Expect:"] + headers.map({ $0.value.isEmpty ? "\($0.name);" : "\($0.name): \($0.value)" }) {
            guard let longer = curl_slist_append(list, line) else { return CURLE_OUT_OF_MEMORY }
            list = longer
        }
        set(ccurl_set_pointer(handle, CURLOPT_HTTPHEADER, list))
        return code
    }

    static func of(_ pointer: UnsafeMutableRawPointer?) -> HTTPTransfer? {
        pointer.map { Unmanaged<HTTPTransfer>.fromOpaque($0).takeUnretainedValue() }
    }

    /// Sets the result: libcurl reported this code, or the transfer was cancelled (nil).
    func finish(_ code: CURLcode?, isSent: Bool? = nil) {
        result.isSent = isSent ?? hasSent
        let errno = handle.map { ccurl_get_number($0, CURLINFO_OS_ERRNO) } ?? 0
        switch (reason, code) {
        case (let reason?, _): result.ending = reason
        case (nil, nil): result.ending = .cancelled
        case (nil, CURLE_OK?): result.ending = .whole
        case (nil, let code?):
            result.ending = .failed(.init(code, errno: errno))
            let detail = errorText.baseAddress.map { String(cString: $0) } ?? ""
            result.text = detail.isEmpty ? String(cString: curl_easy_strerror(code)) : detail
        }
        if let proxy = route.proxy, let status = refusal { result.refuse("the proxy \(proxy.place) answered \(status)") }
        done.set(result)
    }

    /// Whether a part of the request was sent. libcurl counts the request for a tunnel, too, which ends before the handshake of TLS.
    private var hasSent: Bool {
        guard let handle, ccurl_get_number(handle, CURLINFO_REQUEST_SIZE) > 0 else { return false }
        return route.proxy == nil || !address.isSecure || ccurl_has_handshaken(handle) != 0
    }

    /// The status with which the proxy, and not the server, answered.
    private var refusal: Int? {
        guard let handle, route.proxy != nil else { return nil }
        guard address.isSecure else { return result.status == 407 ? 407 : nil }
        let status = ccurl_get_number(handle, CURLINFO_HTTP_CONNECTCODE)
        return !result.isSent && status > 0 && !(200..<300).contains(status) ? status : nil
    }

    // MARK: libcurl calls these. A result other than the number of bytes ends the transfer.

    private func receive(_ bytes: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int) -> Int {
        let (length, isTooLong) = size.multipliedReportingOverflow(by: count)
        guard !isTooLong, let bytes else { return 0 }
        let part = UnsafeRawBufferPointer(start: bytes, count: length)
        result.excerpt += part.prefix(max(Self.maxExcerpt - result.excerpt.count, 0))
        received += min(length, Self.maxAnswer)
        guard received < Self.maxAnswer else { return end(.enough) }
        return length
    }

    private func receiveHeader(_ bytes: UnsafeMutablePointer<CChar>?, _ size: Int, _ count: Int) -> Int {
        let (length, isTooLong) = size.multipliedReportingOverflow(by: count)
        guard !isTooLong, let bytes else { return 0 }
        headerSize += min(length, Self.maxHeader)
        guard headerSize < Self.maxHeader else { return end(.nonsense("the header of the answer is too long")) }
        let line = HTTPLine(UnsafeRawBufferPointer(start: bytes, count: length))
        if isHeaderWhole {
            // After the body: a trailer.
        } else if !isInHeader {
            isInHeader = true
            result.retryAfter = ""
            (status, bodySize) = (line.status, nil)
        } else if line.isEmpty {
            return endHeader() ? length : 0
        } else if let (name, value) = line.field {
            if name == "retry-after", result.retryAfter.isEmpty { result.retryAfter = value }
            if name == "content-length" {
                guard let number = HTTPLine.length(value), number == bodySize ?? number else {
                    return end(.nonsense("Content-Length: \(value.prefix(100))"))
                }
                bodySize = number
            }
        }
        return length
    }

    /// Returns false if the transfer must end.
    private func endHeader() -> Bool {
        isInHeader = false
        guard let status, status >= 100 else { return end(.nonsense("the answer has no status line of HTTP")) != 0 }
        guard status != 101 else { return end(.nonsense("the server changed the protocol (101)")) != 0 }
        guard status >= 200 else {
            interim += 1
            return interim <= Self.maxInterim || end(.nonsense("more than \(Self.maxInterim) answers with a status 1xx")) != 0
        }
        isHeaderWhole = true
        result.status = status
        return true
    }

    private func end(_ reason: HTTPResult.Ending) -> Int {
        self.reason = reason
        return 0
    }
}
