# Every target is a word of scripts/run.sh, which does the same without make.
.PHONY: demo test check bench clean
demo test check bench clean:
	@sh scripts/run.sh $@
