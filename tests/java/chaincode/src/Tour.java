import static java.nio.charset.StandardCharsets.UTF_8;

import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.UnaryOperator;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.hyperledger.fabric.contract.Context;
import org.hyperledger.fabric.contract.ContractInterface;
import org.hyperledger.fabric.contract.annotation.Contract;
import org.hyperledger.fabric.contract.annotation.Default;
import org.hyperledger.fabric.contract.annotation.Info;
import org.hyperledger.fabric.contract.annotation.Transaction;
import org.hyperledger.fabric.shim.Chaincode;
import org.hyperledger.fabric.shim.ChaincodeException;
import org.hyperledger.fabric.shim.ChaincodeStub;
import org.hyperledger.fabric.shim.ledger.CompositeKey;
import org.hyperledger.fabric.shim.ledger.KeyValue;
import org.hyperledger.fabric.shim.ledger.QueryResultsIteratorWithMetadata;

/** One function for each thing that the shim can ask of a peer: the contract of chaincode-node/tour.js in Java. */
@Contract(name = "tour", info = @Info(title = "tour", version = "1.0"))
@Default
public final class Tour implements ContractInterface {
    private static final String INDEX = "color~name";

    @Transaction
    public void put(Context ctx, String key, String value) {
        ctx.getStub().putStringState(key, value);
    }

    @Transaction
    public String get(Context ctx, String key) {
        return ctx.getStub().getStringState(key);
    }

    @Transaction
    public void del(Context ctx, String key) {
        ctx.getStub().delState(key);
    }

    @Transaction
    public void fill(Context ctx, int count) {
        for (int i = 0; i < count; i++) {
            ctx.getStub().putStringState(String.format("n%04d", i), String.valueOf(i));
        }
    }

    /** More than fits into one answer of the peer: the sum shows that none is missing or twice. */
    @Transaction
    public String sum(Context ctx) throws Exception {
        List<KeyValue> found = all(ctx.getStub().getStateByRange("n", "o"));
        return found.size() + " of sum " + found.stream().mapToInt(kv -> Integer.parseInt(kv.getStringValue())).sum();
    }

    @Transaction
    public String range(Context ctx, String start, String end) throws Exception {
        return all(ctx.getStub().getStateByRange(start, end)).stream()
                .map(kv -> kv.getKey() + "=" + kv.getStringValue()).collect(Collectors.joining(" "));
    }

    @Transaction
    public String page(Context ctx, String start, String end, int size, String bookmark) throws Exception {
        return page(ctx.getStub().getStateByRangeWithPagination(start, end, size, bookmark), key -> key);
    }

    @Transaction
    public void mark(Context ctx, String color, String name) {
        ctx.getStub().putState(ctx.getStub().createCompositeKey(INDEX, color, name).toString(), new byte[1]);
    }

    @Transaction
    public String marked(Context ctx, String color) throws Exception {
        ChaincodeStub stub = ctx.getStub();
        return all(stub.getStateByPartialCompositeKey(INDEX, color)).stream()
                .map(kv -> attributes(stub, kv.getKey())).collect(Collectors.joining(" "));
    }

    @Transaction
    public String markedPage(Context ctx, String color, int size) throws Exception {
        ChaincodeStub stub = ctx.getStub();
        CompositeKey prefix = new CompositeKey(INDEX, color);
        return page(stub.getStateByPartialCompositeKeyWithPagination(prefix, size, ""), key -> attributes(stub, key));
    }

    /** The value does not come with the arguments, so it is not in the transaction. */
    @Transaction
    public String keepSecret(Context ctx, String key) throws NoSuchAlgorithmException {
        byte[] secret = ctx.getStub().getTransient().get("secret");
        ctx.getStub().putState(key, MessageDigest.getInstance("SHA-256").digest(secret));
        return String.valueOf(secret.length);
    }

    @Transaction
    public String checkSecret(Context ctx, String key, String secret) throws NoSuchAlgorithmException {
        byte[] hash = MessageDigest.getInstance("SHA-256").digest(secret.getBytes(UTF_8));
        return String.valueOf(Arrays.equals(ctx.getStub().getState(key), hash));
    }

    @Transaction
    public void announce(Context ctx, String name, String payload) {
        ctx.getStub().setEvent(name, payload.getBytes(UTF_8));
    }

    @Transaction
    public String who(Context ctx) {
        Matcher name = Pattern.compile("CN=([^,]+)")
                .matcher(ctx.getClientIdentity().getX509Certificate().getSubjectX500Principal().getName());
        if (!name.find()) {
            throw new ChaincodeException("the creator's certificate has no common name");
        }
        return ctx.getClientIdentity().getMSPID() + " " + name.group(1);
    }

    @Transaction
    public void callPut(Context ctx, String chaincode, String key, String value) {
        call(ctx, chaincode, "put", key, value);
    }

    @Transaction
    public String callGet(Context ctx, String chaincode, String key) {
        return call(ctx, chaincode, "get", key);
    }

    private static String call(Context ctx, String chaincode, String... args) {
        Chaincode.Response answer =
                ctx.getStub().invokeChaincodeWithStringArgs(chaincode, List.of(args), ctx.getStub().getChannelId());
        if (answer.getStatus() != Chaincode.Response.Status.SUCCESS) {
            throw new ChaincodeException(chaincode + " answers " + answer.getStatusCode() + ": " + answer.getMessage());
        }
        return answer.getStringPayload();
    }

    private static <R extends Iterable<KeyValue> & AutoCloseable> List<KeyValue> all(R results) throws Exception {
        try (results) {
            List<KeyValue> found = new ArrayList<>();
            results.forEach(found::add);
            return found;
        }
    }

    /** A page, as both languages write it: keys, their count, and where the next page begins. */
    private static String page(QueryResultsIteratorWithMetadata<KeyValue> results, UnaryOperator<String> name) throws Exception {
        var metadata = results.getMetadata();
        String keys = all(results).stream().map(kv -> name.apply(kv.getKey())).collect(Collectors.joining(" "));
        String next = metadata.getBookmark().isEmpty() ? "" : name.apply(metadata.getBookmark());
        return keys + "; " + metadata.getFetchedRecordsCount() + "; " + next;
    }

    private static String attributes(ChaincodeStub stub, String key) {
        return String.join("/", stub.splitCompositeKey(key).getAttributes());
    }
}
